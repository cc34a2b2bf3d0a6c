use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use crate::address::AddressRules;

/// Resolves names and drops the addresses that the rules refuse.
#[derive(Debug)]
pub(crate) struct CheckedResolver {
    pub(crate) rules: AddressRules,
    pub(crate) inner: DefaultResolver,
}

#[derive(Debug, thiserror::Error)]
#[error("{address} is {kind}")]
pub(crate) struct RefusedAddress {
    pub(crate) address: std::net::IpAddr,
    pub(crate) kind: &'static str,
}

impl Resolver for CheckedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.inner.resolve(uri, config, timeout)?;
        let mut allowed = self.empty();
        let mut refused = None;
        for address in found.iter() {
            match self.rules.refusal(address.ip()) {
                None => allowed.push(*address),
                Some(kind) => refused = Some(RefusedAddress { address: address.ip(), kind }),
            }
        }
        match refused {
            Some(refused) if allowed.is_empty() => Err(ureq::Error::Other(Box::new(refused))),
            _ => Ok(allowed),
        }
    }
}
