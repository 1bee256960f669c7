//! Mutual TLS 1.3: both ends show a certificate that the cluster's CA issued.

use std::fmt;
use std::io;
use std::sync::Arc;

use thiserror::Error;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, client, version};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::network::BoxStream;

/// Nothing else that trusts the same CA speaks this, so a stream cannot be led to another service.
const ALPN: &[u8] = b"holdfast-link";

/// The certificates of a node.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    server_name: Option<ServerName<'static>>,
}

/// Certificates that cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// One of the texts is no PEM of what it should be.
    #[error("the {what} cannot be read: {source}")]
    Pem {
        /// Which of the three.
        what: &'static str,
        /// What is wrong.
        source: pem::Error,
    },
    /// One of the texts holds nothing.
    #[error("there is no {0} in the file")]
    Missing(&'static str),
    /// The parts do not fit each other.
    #[error("the certificates cannot be used: {0}")]
    Unusable(String),
}

impl Tls {
    /// Takes the CA's certificates, this node's certificate with its chain, and its key, each as PEM.
    ///
    /// A node that is dialled must show a certificate for the host that was dialled, or for `server_name` if that is
    /// given: one name that all certificates of the cluster carry.
    ///
    /// # Errors
    ///
    /// If a part cannot be read, is missing, or does not fit the others.
    pub fn from_pem(
        ca: &[u8],
        certificate: &[u8],
        key: &[u8],
        server_name: Option<&str>,
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        for root in certificates("CA certificate", ca)? {
            roots.add(root).map_err(unusable)?;
        }
        let roots = Arc::new(roots);
        let chain = certificates("certificate", certificate)?;
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|source| TlsError::Pem { what: "key", source })?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(unusable)?;
        let mut accepting = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(unusable)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(unusable)?;
        accepting.alpn_protocols = vec![ALPN.to_vec()];
        // Every link proves itself anew.
        accepting.session_storage = Arc::new(NoServerSessionStorage {});
        accepting.send_tls13_tickets = 0;
        let mut dialling = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])
            .map_err(unusable)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(unusable)?;
        dialling.alpn_protocols = vec![ALPN.to_vec()];
        dialling.resumption = client::Resumption::disabled();
        let server_name = server_name.map(name_of).transpose().map_err(unusable)?;
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(accepting)),
            connector: TlsConnector::from(Arc::new(dialling)),
            server_name,
        })
    }

    pub(super) async fn accept(&self, stream: BoxStream) -> io::Result<BoxStream> {
        let stream = self.acceptor.accept(stream).await?;
        check_alpn(stream.get_ref().1.alpn_protocol())?;
        Ok(Box::new(stream))
    }

    pub(super) async fn dial(&self, address: &str, stream: BoxStream) -> io::Result<BoxStream> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => name_of(host_of(address)).map_err(io::Error::other)?,
        };
        let stream = self.connector.connect(name, stream).await?;
        check_alpn(stream.get_ref().1.alpn_protocol())?;
        Ok(Box::new(stream))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

fn certificates(what: &'static str, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|source| TlsError::Pem { what, source })?;
    if found.is_empty() {
        return Err(TlsError::Missing(what));
    }
    Ok(found)
}

fn unusable(error: impl fmt::Display) -> TlsError {
    TlsError::Unusable(error.to_string())
}

fn name_of(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| format!("{host:?} is no name that a certificate can carry"))
}

/// Returns the host of `host:port`, without the brackets of an IPv6 address.
fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

fn check_alpn(protocol: Option<&[u8]>) -> io::Result<()> {
    if protocol == Some(ALPN) {
        return Ok(());
    }
    Err(io::Error::other("the other end of the TLS session is no node"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_addresses() {
        for (address, host) in [
            ("a.b:7901", "a.b"),
            ("10.0.0.1:1", "10.0.0.1"),
            ("[::1]:7901", "::1"),
        ] {
            assert_eq!(host_of(address), host);
            name_of(host).unwrap();
        }
        assert!(name_of("a b").is_err());
    }
}
