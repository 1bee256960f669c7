//! Certificates, made on the spot.

use std::sync::Arc;

use cluster::link::{Security, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// An authority with the certificates that it issues.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// The certificate and key of a node with these names, each as PEM.
    pub(crate) fn issue(&self, names: &[&str]) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names)
            .unwrap()
            .signed_by(&key, &self.0)
            .unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    pub(crate) fn security(&self, names: &[&str], server_name: Option<&str>) -> Security {
        let (certificate, key) = self.issue(names);
        let tls = Tls::from_pem(
            self.0.pem().as_bytes(),
            certificate.as_bytes(),
            key.as_bytes(),
            server_name,
        );
        Security::Tls(tls.unwrap())
    }

    /// What both ends of TLS are with these names, for whoever is in the middle.
    pub(crate) fn both_ends(&self, names: &[&str]) -> (TlsAcceptor, TlsConnector) {
        let (certificate, key) = self.issue(names);
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.pem().as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(ring::default_provider());
        let accepting =
            ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[&TLS13]);
        let accepting = accepting.unwrap().with_no_client_auth();
        let mut accepting = accepting
            .with_single_cert(chain.clone(), key.clone_key())
            .unwrap();
        let dialling = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]);
        let dialling = dialling.unwrap().with_root_certificates(roots);
        let mut dialling = dialling.with_client_auth_cert(chain, key).unwrap();
        accepting.alpn_protocols = vec![b"holdfast-link".to_vec()];
        dialling.alpn_protocols = accepting.alpn_protocols.clone();
        (
            TlsAcceptor::from(Arc::new(accepting)),
            TlsConnector::from(Arc::new(dialling)),
        )
    }
}
