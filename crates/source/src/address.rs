use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which addresses a fetch may connect to, judged after name resolution, on the very address that is
/// then used: a name that resolves differently the next time changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRules {
    /// Allow this machine's own addresses (127.0.0.0/8, ::1). For standalone use and tests: in a pod,
    /// they reach the neighbours in the pod and what the node serves itself.
    pub allow_loopback: bool,
    /// Allow link-local addresses (169.254.0.0/16, fe80::/10) and the well-known metadata services of
    /// cloud providers, which hand out the machine's own credentials to whoever asks.
    pub allow_link_local: bool,
}

impl Default for AddressRules {
    /// Everything but this machine, link-local and metadata addresses.
    fn default() -> Self {
        Self { allow_loopback: false, allow_link_local: false }
    }
}

/// Metadata services outside the link-local ranges: Alibaba Cloud, Oracle Cloud, Azure, AWS over IPv6.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192), Ipv4Addr::new(168, 63, 129, 16)];
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254);

impl AddressRules {
    /// Why the address is refused, or nothing.
    pub(crate) fn refusal(self, address: IpAddr) -> Option<&'static str> {
        let address = embedded_v4(address).map_or(address, IpAddr::V4);
        let is_link_local = match address {
            IpAddr::V4(v4) => v4.is_link_local() || METADATA_V4.contains(&v4),
            IpAddr::V6(v6) => v6.is_unicast_link_local() || v6 == METADATA_V6,
        };
        // The unspecified address connects to this machine on Linux.
        let is_loopback = match address {
            IpAddr::V4(v4) => v4.is_loopback() || v4.octets()[0] == 0,
            IpAddr::V6(v6) => v6.is_loopback() || v6.is_unspecified(),
        };
        if address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST) {
            Some("a multicast or broadcast address")
        } else if is_link_local && !self.allow_link_local {
            Some("a link-local or metadata address")
        } else if is_loopback && !self.allow_loopback {
            Some("an address of this machine")
        } else {
            None
        }
    }
}

/// The IPv4 address inside an IPv4-mapped, IPv4-compatible, NAT64 (64:ff9b::/96) or 6to4 (2002::/16) address.
fn embedded_v4(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = address else { return None };
    if let Some(mapped) = v6.to_ipv4_mapped() {
        return Some(mapped);
    }
    let segments = v6.segments();
    let joined = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match segments {
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(joined(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(joined(high, low)),
        [0x2002, high, low, ..] => Some(joined(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_link_local_and_metadata_are_refused_by_default() {
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "fe80::1",
            "fd00:ec2::254",
            "100.100.100.200",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            "::169.254.169.254",
        ] {
            assert!(AddressRules::default().refusal(address.parse().unwrap()).is_some(), "{address}");
        }
        for address in ["10.0.0.1", "192.168.1.1", "140.82.112.3", "fd12:3456::1", "2606:50c0::1"] {
            assert_eq!(AddressRules::default().refusal(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn each_allowance_covers_only_its_own() {
        let loopback = AddressRules { allow_loopback: true, ..AddressRules::default() };
        assert_eq!(loopback.refusal("127.0.0.1".parse().unwrap()), None);
        assert!(loopback.refusal("169.254.169.254".parse().unwrap()).is_some());
        let link_local = AddressRules { allow_link_local: true, ..AddressRules::default() };
        assert_eq!(link_local.refusal("169.254.169.254".parse().unwrap()), None);
        assert!(link_local.refusal("::1".parse().unwrap()).is_some());
    }
}
