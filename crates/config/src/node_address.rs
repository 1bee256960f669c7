//! Where a node of a cluster is: a host and a port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::declared::parse_number;

/// The port of an address that names none.
const DEFAULT_PORT: u16 = 7901;
/// Longest name that DNS has.
const HOST_BYTES_MAX: usize = 253;
/// Longest part of a name between two dots.
const LABEL_BYTES_MAX: usize = 63;

/// Where a node of a cluster is. Two spellings of one address are equal; names are not looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddress {
    /// A name in lower case, or an IP address without brackets.
    pub host: String,
    /// The port, never 0.
    pub port: u16,
}

impl NodeAddress {
    /// Reads `host:port`, a host alone, or `:port` for every address of the machine.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Some(Self {
                host: address.to_string(),
                port: DEFAULT_PORT,
            });
        }
        let (host, port) = if let Some(bracketed) = text.strip_prefix('[') {
            let (address, rest) = bracketed.split_once(']')?;
            let port = if rest.is_empty() {
                None
            } else {
                Some(rest.strip_prefix(':')?)
            };
            (address.parse::<Ipv6Addr>().ok()?.to_string(), port)
        } else {
            match text.split_once(':') {
                Some(("", port)) => (Ipv4Addr::UNSPECIFIED.to_string(), Some(port)),
                Some((host, port)) => (host_name(host)?, Some(port)),
                None => (host_name(text)?, None),
            }
        };
        let port = port.map_or(Some(DEFAULT_PORT), |digits| {
            u16::try_from(parse_number(digits)?).ok()
        })?;
        (port != 0).then_some(Self { host, port })
    }

    /// Reads addresses with commas between them; nothing between two commas is passed over.
    pub(crate) fn parse_list(text: &str) -> Option<Vec<Self>> {
        text.split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(Self::parse)
            .collect()
    }

    /// Whether this is every address of a machine, which can be listened on and not be reached.
    pub fn is_unspecified(&self) -> bool {
        self.host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_unspecified())
    }
}

/// Returns an IPv4 address or a name of DNS in lower case. Names of containers may have underscores.
fn host_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_valid = if parse_number(last).is_some() {
        // A port that stands alone, or an IPv4 address with a mistake, would else pass as a name.
        text.parse::<Ipv4Addr>().is_ok()
    } else {
        name.len() <= HOST_BYTES_MAX && name.split('.').all(is_label)
    };
    is_valid.then(|| text.to_ascii_lowercase())
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_hosts_and_ports() {
        let long_name = format!("{}.example.org", "a".repeat(63));
        let long_address = format!("{long_name}:7901");
        for (text, expected) in [
            ("node-1:7000", Some("node-1:7000")),
            ("node-1", Some("node-1:7901")),
            ("Node-1.Example.ORG:1", Some("node-1.example.org:1")),
            ("holdfast_1.net.", Some("holdfast_1.net.:7901")),
            (&long_name, Some(long_address.as_str())),
            ("10.0.0.1:65535", Some("10.0.0.1:65535")),
            ("0.0.0.0", Some("0.0.0.0:7901")),
            (":7901", Some("0.0.0.0:7901")),
            ("::", Some("[::]:7901")),
            ("0:0::1", Some("[::1]:7901")),
            ("[::1]", Some("[::1]:7901")),
            ("[FE80::1]:80", Some("[fe80::1]:80")),
            ("", None),
            (":", None),
            ("node-1:", None),
            ("node-1:0", None),
            ("node-1:65536", None),
            ("node-1:+1", None),
            ("node-1:1:2", None),
            ("node 1", None),
            ("node..1", None),
            (".", None),
            ("7901", None),
            ("10.0.0.256", None),
            ("10.0.1", None),
            ("http://node-1:7901", None),
            ("node-1:7901/x", None),
            ("user@node-1", None),
            ("[::1", None),
            ("[::1]7901", None),
            ("[node-1]:7901", None),
            (&"a".repeat(64), None),
            (&["a"; 128].join("."), None),
        ] {
            let address = NodeAddress::parse(text).map(|address| address.to_string());
            assert_eq!(address.as_deref(), expected, "{text:?}");
            if let Some(expected) = expected {
                let again = NodeAddress::parse(expected).map(|address| address.to_string());
                assert_eq!(again.as_deref(), Some(expected));
            }
        }
    }

    #[test]
    fn lists_have_commas() {
        let list = |text| NodeAddress::parse_list(text).map(|addresses| addresses.len());
        assert_eq!(list(""), Some(0));
        assert_eq!(list("a"), Some(1));
        assert_eq!(list(" a:1 , b:2,,"), Some(2));
        assert_eq!(list("a b"), None);
        assert_eq!(list("a,:x"), None);
    }
}
