//! The journal on disks that fail and on one that does not.

#[cfg(test)]
mod by_itself;
#[cfg(test)]
mod conform;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod housekeeping;
#[cfg(test)]
mod power_cut;
#[cfg(test)]
mod repair;
#[cfg(test)]
mod replicated;
#[cfg(test)]
mod replicated_model;
#[cfg(test)]
mod support;
