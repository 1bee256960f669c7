//! Links between nodes, over a network in memory whose time is turned by the tests, and over TCP; and nodes of one Raft in
//! one process.

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod authority;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod conform;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod garbage;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod group;
#[cfg(test)]
mod handshake;
#[cfg(test)]
mod late;
#[cfg(test)]
mod life;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod node;
#[cfg(test)]
mod raft;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod sync;
#[cfg(test)]
mod tampering;
#[cfg(test)]
mod tcp;
