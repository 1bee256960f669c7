//! The server that is measured.

use std::env;
use std::sync::Arc;

use types::QueueName;

use super::arguments::Arguments;
use crate::failure::{Failure, Kind};
use crate::sqs::{Client, Credentials, Endpoint};

/// Where it is, who asks, and which queue.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) credentials: Credentials,
    /// None for a queue of the run's own.
    pub(crate) queue: Option<QueueName>,
}

impl Target {
    pub(crate) fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let credentials = Credentials::from_environment(|name| env::var(name).ok());
        if !credentials.is_usable() {
            return Err(Failure::new(
                Kind::Usage,
                "the credentials of the environment cannot be sent",
                "AWS_ACCESS_KEY_ID and AWS_REGION may only have printable ASCII characters without blanks",
                "look for a blank or a line break in them",
            ));
        }
        Ok(Self {
            endpoint: Arc::new(arguments.endpoint.clone()),
            credentials,
            queue: arguments.queue.clone(),
        })
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(Arc::clone(&self.endpoint), self.credentials.clone())
    }
}
