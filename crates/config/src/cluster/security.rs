//! How the nodes of a cluster prove themselves to each other.

use std::path::PathBuf;

use crate::declared::Declared;
use crate::error::ConfigError;
use crate::options::{Environment, ReadFile};
use crate::raw::Raw;
use crate::secret::{self, ClusterSecret};
use crate::table::cluster as table;

/// Shortest secret that nobody finds by trying.
const SECRET_BYTES_MIN: usize = 32;

/// How the nodes of a cluster prove themselves to each other.
#[derive(Debug, Clone)]
pub enum ClusterSecurity {
    /// By certificates of one authority. The files have not been read.
    Tls {
        /// The authority's certificate, in PEM.
        ca: PathBuf,
        /// This node's certificate, in PEM.
        cert: PathBuf,
        /// Its private key, in PEM.
        key: PathBuf,
    },
    /// By a secret that all of them know.
    Secret {
        /// The secret; one shorter than 32 bytes was warned of.
        current: ClusterSecret,
        /// The one that it replaces, which is accepted too.
        previous: Option<ClusterSecret>,
    },
    /// Not at all.
    Insecure,
}

pub(crate) fn check(
    raw: &Raw,
    environment: Environment<'_>,
    read_file: ReadFile<'_>,
    warnings: &mut Vec<String>,
) -> Result<ClusterSecurity, ConfigError> {
    let may_be_insecure = raw.boolean(&table::ALLOW_INSECURE)?;
    let read = |option: &'static Declared| {
        raw.given(option)
            .map(|text| secret::read(option.name, text, &raw.origin(option), environment, read_file))
            .transpose()
    };
    let security = if let Some(certificates) = certificates(raw)? {
        for unused in [&table::SECRET, &table::SECRET_PREVIOUS] {
            if raw.given(unused).is_some() {
                warnings.push(format!(
                    "{} is not used, because the nodes prove themselves by certificates (cluster.tls_cert): leave \
                     out the one or the other",
                    unused.name
                ));
            }
        }
        certificates
    } else if let Some(current) = read(&table::SECRET)? {
        check_length(raw, current.len(), warnings)?;
        let previous = read(&table::SECRET_PREVIOUS)?;
        // Whoever replaces a short secret cannot do so without naming it.
        if let Some(previous) = previous.as_ref().filter(|text| text.len() < SECRET_BYTES_MIN) {
            let length = previous.len();
            warnings.push(format!(
                "cluster.secret_previous has {length} bytes and is easier to find by trying than the secret that \
                 replaces it: leave it out as soon as all nodes have the new one"
            ));
        }
        ClusterSecurity::Secret {
            current: ClusterSecret::new(current),
            previous: previous.map(ClusterSecret::new),
        }
    } else {
        without_proof(raw, may_be_insecure, warnings)?;
        return Ok(ClusterSecurity::Insecure);
    };
    if may_be_insecure {
        warnings.push(
            "cluster.allow_insecure has no effect now, and would let this node start in a cluster that is open to \
             everybody if the secret or the certificates went missing: leave it out"
                .to_owned(),
        );
    }
    Ok(security)
}

/// Returns the three files of certificates, or nothing if none is named.
fn certificates(raw: &Raw) -> Result<Option<ClusterSecurity>, ConfigError> {
    let path = |option| raw.parse_given(option, |text| (!text.is_empty()).then(|| PathBuf::from(text)));
    let options = [&table::TLS_CA, &table::TLS_CERT, &table::TLS_KEY];
    let [ca, cert, key] = [path(options[0])?, path(options[1])?, path(options[2])?];
    if let (Some(ca), Some(cert), Some(key)) = (ca, cert, key) {
        return Ok(Some(ClusterSecurity::Tls { ca, cert, key }));
    }
    let (given, missing): (Vec<&Declared>, Vec<&Declared>) = options
        .into_iter()
        .partition(|option| raw.given(option).is_some());
    if given.is_empty() {
        return Ok(None);
    }
    let names: Vec<&str> = missing.iter().map(|option| option.name).collect();
    let error = ConfigError::new(
        format!("{} must be set too", names.join(" and ")),
        "a node proves itself with its certificate and key, and checks others by that of their authority",
        "set all three of cluster.tls_ca, cluster.tls_cert and cluster.tls_key, or none",
    );
    Err(given
        .into_iter()
        .fold(error, |error, option| error.at(raw.origin(option))))
}

fn check_length(raw: &Raw, length: usize, warnings: &mut Vec<String>) -> Result<(), ConfigError> {
    if length >= SECRET_BYTES_MIN {
        return Ok(());
    }
    let Some(variable) = raw.alias(&table::SECRET) else {
        return Err(ConfigError::new(
            "cluster.secret is too short",
            format!("it has {length} bytes, and whoever sees nodes meet finds one of less than {SECRET_BYTES_MIN} by trying"),
            "make one with: openssl rand -hex 32",
        )
        .at(raw.origin(&table::SECRET)));
    };
    warnings.push(format!(
        "WEAK CLUSTER SECRET: {variable} has {length} bytes, and whoever sees nodes meet finds one of less than \
         {SECRET_BYTES_MIN} by trying: make one with `openssl rand -hex 32`, and put the old one into \
         HOLDFAST_CLUSTER_SECRET_PREVIOUS while nodes are restarted"
    ));
    Ok(())
}

/// Refuses a cluster that everybody could enter, unless that is wanted.
fn without_proof(raw: &Raw, may_be_insecure: bool, warnings: &mut Vec<String>) -> Result<(), ConfigError> {
    if raw.given(&table::SECRET_PREVIOUS).is_some() {
        return Err(ConfigError::new(
            "cluster.secret_previous is set and cluster.secret is not",
            "the previous secret is accepted beside the one that replaces it, and not alone",
            "set cluster.secret to the new secret",
        )
        .at(raw.origin(&table::SECRET_PREVIOUS)));
    }
    if may_be_insecure {
        warnings.push(
            "INSECURE CLUSTER: there is no secret and there are no certificates, so whoever reaches cluster.listen \
             reads every message and changes everything: set cluster.secret, for all but tests on one machine"
                .to_owned(),
        );
        return Ok(());
    }
    Err(ConfigError::new(
        "the cluster has no secret and no certificates",
        "whoever reaches cluster.listen could read every message and change everything",
        "set HOLDFAST_CLUSTER_SECRET on all nodes to what `openssl rand -hex 32` gives once, or for a test on one \
         machine HOLDFAST_CLUSTER_ALLOW_INSECURE=true",
    )
    .at(raw.origin(&table::LISTEN)))
}
