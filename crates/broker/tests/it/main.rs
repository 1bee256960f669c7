//! What an owner promises, played by hand turn by turn, and what the running broker makes of it.

#[cfg(test)]
mod batches;
#[cfg(test)]
mod conservation;
#[cfg(test)]
mod failing;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod node;
#[cfg(test)]
mod polls;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod restarts;
#[cfg(test)]
mod running;
#[cfg(test)]
mod served;
#[cfg(test)]
mod takes;
#[cfg(test)]
mod timers;
#[cfg(test)]
mod wakes;
