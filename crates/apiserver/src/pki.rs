//! The certificates of a server that stands alone: its own CA, a serving certificate and an
//! administrator's client certificate, and kubeconfigs that use them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use serde_json::json;

use crate::user::SYSTEM_MASTERS;

/// A certificate that cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the certificate {name:?}")]
pub struct PkiError {
    name: String,
    #[source]
    source: rcgen::Error,
}

/// A certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificateAndKey {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl std::fmt::Debug for CertificateAndKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertificateAndKey").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// How long a CA is valid.
const CA_DAYS: i64 = 3650;
/// How long what it issues is valid.
const LEAF_DAYS: i64 = 365;

fn date(at: Timestamp) -> (i32, u8, u8) {
    let date = at.to_zoned(TimeZone::UTC).date();
    (date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
}

/// Valid from the day before, so that a clock that is a little behind does not matter.
fn valid(params: &mut CertificateParams, now: Timestamp, days: i64) {
    let moved = |days: i64| now.checked_add(Span::new().hours(days * 24)).unwrap_or(now);
    let ((year, month, day), (to_year, to_month, to_day)) = (date(moved(-1)), date(moved(days)));
    params.not_before = rcgen::date_time_ymd(year, month, day);
    params.not_after = rcgen::date_time_ymd(to_year, to_month, to_day);
}

/// A CA that issues certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    files: CertificateAndKey,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Authority {
    /// Makes a new CA.
    ///
    /// # Errors
    /// When no key can be generated.
    pub fn generate(name: &str, now: Timestamp) -> Result<Self, PkiError> {
        let fail = |source| PkiError { name: name.to_owned(), source };
        let key = KeyPair::generate().map_err(fail)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        valid(&mut params, now, CA_DAYS);
        let certificate = params.self_signed(&key).map_err(fail)?;
        let files = CertificateAndKey { certificate: certificate.pem(), key: key.serialize_pem() };
        Ok(Self { issuer: Issuer::new(params, key), files })
    }

    /// Takes up a CA that was made before.
    ///
    /// # Errors
    /// When the PEM texts are no CA.
    pub fn load(files: CertificateAndKey) -> Result<Self, PkiError> {
        let fail = |source| PkiError { name: "CA".to_owned(), source };
        let key = KeyPair::from_pem(&files.key).map_err(fail)?;
        let issuer = Issuer::from_ca_cert_pem(&files.certificate, key).map_err(fail)?;
        Ok(Self { issuer, files })
    }

    /// The CA's certificate and key.
    pub fn files(&self) -> &CertificateAndKey {
        &self.files
    }

    /// Issues a serving certificate for DNS names and IP addresses.
    ///
    /// # Errors
    /// When a name is malformed or no key can be generated.
    pub fn serving(&self, names: &[String], now: Timestamp) -> Result<CertificateAndKey, PkiError> {
        let name = names.first().map_or("server", String::as_str);
        self.issue(name, &[], names, ExtendedKeyUsagePurpose::ServerAuth, now)
    }

    /// Issues a client certificate: the user and its groups.
    ///
    /// # Errors
    /// When no key can be generated.
    pub fn client(&self, user: &str, groups: &[&str], now: Timestamp) -> Result<CertificateAndKey, PkiError> {
        self.issue(user, groups, &[], ExtendedKeyUsagePurpose::ClientAuth, now)
    }

    /// Issues the administrator's client certificate, in `system:masters`.
    ///
    /// # Errors
    /// When no key can be generated.
    pub fn admin(&self, now: Timestamp) -> Result<CertificateAndKey, PkiError> {
        self.client("admin", &[SYSTEM_MASTERS], now)
    }

    fn issue(
        &self,
        name: &str,
        groups: &[&str],
        names: &[String],
        usage: ExtendedKeyUsagePurpose,
        now: Timestamp,
    ) -> Result<CertificateAndKey, PkiError> {
        let fail = |source| PkiError { name: name.to_owned(), source };
        let key = KeyPair::generate().map_err(fail)?;
        let mut params = CertificateParams::new(names.to_vec()).map_err(fail)?;
        params.distinguished_name = subject(name, groups);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        valid(&mut params, now, LEAF_DAYS);
        let certificate = params.signed_by(&key, &self.issuer).map_err(fail)?;
        Ok(CertificateAndKey { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn subject(name: &str, groups: &[&str]) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    for group in groups {
        subject.push(DnType::OrganizationName, *group);
    }
    subject.push(DnType::CommonName, name);
    subject
}

/// A kubeconfig (YAML) that reaches `server` with a client certificate, all inline.
pub fn kubeconfig(cluster: &str, server: &str, ca: &str, user: &str, client: &CertificateAndKey) -> String {
    let encode = |pem: &str| STANDARD.encode(pem.as_bytes());
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": encode(ca)}}],
        "users": [{"name": user, "user": {
            "client-certificate-data": encode(&client.certificate),
            "client-key-data": encode(&client.key),
        }}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
        "preferences": {},
    });
    convoy_yaml::to_yaml(&config).unwrap_or_else(|_| config.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::{Authenticator as _, ClientCertificates, Credentials};
    use crate::tls::{ServingCertificate, certificates};

    fn now() -> Timestamp {
        "2026-05-01T12:00:00Z".parse().unwrap()
    }

    #[tokio::test]
    async fn an_issued_client_certificate_names_its_user_and_no_other_ca_does() {
        let ca = Authority::load(Authority::generate("convoy", now()).unwrap().files().clone()).unwrap();
        let other = Authority::generate("other", now()).unwrap();
        let trust = |ca: &Authority| {
            ClientCertificates::new(&certificates(ca.files().certificate.as_bytes()).unwrap()).unwrap()
        };
        let admin = ca.admin(now()).unwrap();
        let chain = certificates(admin.certificate.as_bytes()).unwrap();
        let headers = http::HeaderMap::new();
        let credentials = Credentials {
            headers: &headers,
            certificates: &chain,
            remote: ([127, 0, 0, 1], 1).into(),
            now: now(),
        };
        let user = trust(&ca).authenticate(&credentials).await.unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.is_in(SYSTEM_MASTERS)), ("admin", true));
        assert!(trust(&other).authenticate(&credentials).await.is_err());
        let later = Credentials { now: "2028-01-01T00:00:00Z".parse().unwrap(), ..credentials };
        assert!(trust(&ca).authenticate(&later).await.is_err(), "an expired certificate is refused");
        let serving = ca.serving(&["localhost".into(), "127.0.0.1".into()], now()).unwrap();
        let as_client = certificates(serving.certificate.as_bytes()).unwrap();
        let credentials = Credentials { certificates: &as_client, now: now(), ..later };
        assert!(trust(&ca).authenticate(&credentials).await.is_err(), "a serving certificate is no client's");
    }

    #[test]
    fn a_serving_certificate_and_its_key_belong_together() {
        let ca = Authority::generate("convoy", now()).unwrap();
        let a = ca.serving(&["localhost".into()], now()).unwrap();
        let b = ca.serving(&["localhost".into()], now()).unwrap();
        assert!(ServingCertificate::from_pem(a.certificate.as_bytes(), a.key.as_bytes()).is_ok());
        assert!(ServingCertificate::from_pem(a.certificate.as_bytes(), b.key.as_bytes()).is_err());
        assert!(ServingCertificate::from_pem(b"", a.key.as_bytes()).is_err());
    }

    #[test]
    fn a_kubeconfig_is_yaml_with_everything_inline() {
        let client = CertificateAndKey { certificate: "C".into(), key: "K".into() };
        let text = kubeconfig("convoy", "https://127.0.0.1:1", "CA", "admin", &client);
        assert!(text.contains("certificate-authority-data: Q0E="), "{text}");
        assert!(text.contains("current-context: convoy"), "{text}");
    }
}
