//! Tells a service manager such as systemd how far the process is (`Type=notify`).

use sd_notify::NotifyState;
use tracing::warn;

/// How far the process is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum State {
    /// The journal is read, and calls are taken.
    Ready,
    /// It hands over and answers what it accepted.
    Stopping,
}

/// Says so, if somebody listens: the variable NOTIFY_SOCKET names the socket.
pub(crate) fn notify(state: State) {
    let state = match state {
        State::Ready => NotifyState::Ready,
        State::Stopping => NotifyState::Stopping,
    };
    if let Err(error) = sd_notify::notify(&[state]) {
        warn!(%error, "the service manager could not be told");
    }
}
