//! Who the client says it is.

use std::fmt;

/// An access key and its region.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) access_key_id: String,
    pub(crate) secret_access_key: String,
    pub(crate) region: String,
}

impl Credentials {
    /// What is used where the environment says nothing; a server started with `--dev` takes any.
    const PLACEHOLDER: &'static str = "holdfast";
    const REGION: &'static str = "us-east-1";

    /// Reads the usual variables of AWS. An empty one counts as one that is not set.
    pub(crate) fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &str| variable(name).filter(|text| !text.is_empty());
        Self {
            access_key_id: variable("AWS_ACCESS_KEY_ID").unwrap_or_else(|| Self::PLACEHOLDER.to_owned()),
            secret_access_key: variable("AWS_SECRET_ACCESS_KEY")
                .unwrap_or_else(|| Self::PLACEHOLDER.to_owned()),
            region: variable("AWS_REGION")
                .or_else(|| variable("AWS_DEFAULT_REGION"))
                .unwrap_or_else(|| Self::REGION.to_owned()),
        }
    }

    /// Whether what is sent of them can stand in a header.
    pub(crate) fn is_usable(&self) -> bool {
        [&self.access_key_id, &self.region]
            .into_iter()
            .all(|text| text.bytes().all(|byte| byte.is_ascii_graphic()))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({}, secret redacted)", self.access_key_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_read_as_the_sdks_do() {
        let set = |name: &str| {
            let value = match name {
                "AWS_ACCESS_KEY_ID" => "AKIA",
                "AWS_REGION" => "",
                "AWS_DEFAULT_REGION" => "eu-west-1",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let credentials = Credentials::from_environment(set);
        assert_eq!(credentials.access_key_id, "AKIA");
        assert_eq!(credentials.secret_access_key, "holdfast");
        assert_eq!(credentials.region, "eu-west-1");
        assert!(!format!("{credentials:?}").contains("secret_access_key"));
    }
}
