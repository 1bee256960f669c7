//! The journal on disks that fail and on one that does not.

#[cfg(test)]
mod conform;
#[cfg(test)]
mod support;
