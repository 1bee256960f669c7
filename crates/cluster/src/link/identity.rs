//! Who a node is to others, and whom to ask.

use std::fmt;

/// A node's random id, kept in its data directory. Never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u64);

impl NodeId {
    /// The lowest id.
    pub const MIN: Self = Self(1);

    /// Makes an id of a number other than 0.
    pub const fn new(id: u64) -> Option<Self> {
        if id == 0 { None } else { Some(Self(id)) }
    }

    /// Returns the number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A cluster's random id. Never all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId([u8; 16]);

impl ClusterId {
    /// Makes an id of bytes that are not all zero.
    pub fn new(id: [u8; 16]) -> Option<Self> {
        (id != [0; 16]).then_some(Self(id))
    }

    /// Returns the bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Who this node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its id.
    pub node: NodeId,
    /// Its cluster; `None` while it is fresh.
    pub cluster: Option<ClusterId>,
    /// Where others reach it, as `host:port`. At most 255 bytes.
    pub advertise: String,
    /// The highest feature level that it knows.
    pub level: u32,
}

/// The other end of an authenticated link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its id.
    pub node: NodeId,
    /// Its cluster; `None` while it is fresh.
    pub cluster: Option<ClusterId>,
    /// Where it says it is reached, as `host:port`.
    pub address: String,
    /// The highest feature level that it knows.
    pub level: u32,
    /// Whether both ends belong to one cluster. If not, only [discovery](super::DISCOVERY_KINDS_END) may be asked.
    pub is_member: bool,
}

/// Whom to ask. Each target has a connection of its own, also where two of them lead to one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The node that must answer; `None` for whoever answers there.
    pub node: Option<NodeId>,
    /// Where, as `host:port`. The name is looked up again with each dial.
    pub address: String,
}

impl Target {
    /// Names a node at an address.
    pub fn node(node: NodeId, address: impl Into<String>) -> Self {
        let (node, address) = (Some(node), address.into());
        Self { node, address }
    }

    /// Names an address, whoever answers there.
    pub fn anyone(address: impl Into<String>) -> Self {
        let (node, address) = (None, address.into());
        Self { node, address }
    }
}
