//! Checked options: valid, typed, and all that the rest of the program sees.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use auth::Key;
use types::Region;

use crate::cluster::{self, ClusterOptions};
use crate::error::ConfigError;
use crate::file::{self, File};
use crate::flags::Flags;
use crate::keys;
use crate::node_file;
use crate::origin::{Origin, Setting};
use crate::raw::Raw;
use crate::secret::{self, AdminToken};
use crate::table;

/// Looks up an environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;
/// Reads a file as text.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// Everything that a server is started with.
#[derive(Debug)]
pub struct Options {
    /// Ports, names, and what a client may use up.
    pub server: ServerOptions,
    /// Where and how state is kept.
    pub store: StoreOptions,
    /// Limits of the partition owners.
    pub broker: BrokerOptions,
    /// The cluster that the server is a node of; `None` for a server alone.
    pub cluster: Option<ClusterOptions>,
    /// Whose requests are accepted.
    pub auth: AuthOptions,
    /// Who may change how the server runs.
    pub admin: AdminOptions,
    /// What is logged.
    pub log: LogOptions,
    /// The file that says how disk and clock fail; only under `--dev`.
    pub faults: Option<PathBuf>,
    /// What is allowed and probably not meant: to be logged at the start, each with what to do.
    pub warnings: Vec<String>,
    settings: Vec<Setting>,
}

/// Ports, names, and what a client may use up.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The address of both ports.
    pub bind: IpAddr,
    /// The port of the data plane; 0 takes a free one.
    pub port: u16,
    /// The port of the control plane; 0 takes a free one.
    pub control_port: u16,
    /// The region that ARNs and signatures carry.
    pub region: Region,
    /// What queue URLs begin with, without a slash at the end; `None` for the Host of the request.
    pub public_url: Option<String>,
    /// Whether the waits of SQS are kept.
    pub limits: Limits,
    /// How many client connections are open at once.
    pub connections_max: u32,
    /// How many bytes of request bodies are held at once.
    pub request_bytes_in_flight_max: u64,
}

/// Where and how state is kept.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The data directory.
    pub data_dir: PathBuf,
    /// When a request is answered.
    pub fsync: Fsync,
    /// The size of a file of the journal.
    pub segment_bytes: u64,
    /// How much of the journal is written between two snapshots.
    pub snapshot_log_bytes: u64,
    /// How much of the disk is kept free; `None` for a part of it.
    pub reserve_bytes: Option<u64>,
    /// How much memory contents take that also lie on the disk.
    pub cache_bytes: u64,
}

/// Limits of the partition owners.
#[derive(Debug, Clone)]
pub struct BrokerOptions {
    /// How many commands of one partition wait for their commit.
    pub inbox_commands_max: u32,
    /// How many messages of one queue may be in flight.
    pub in_flight_max: u32,
    /// How many deduplication ids are held.
    pub deduplication_ids_max: u64,
    /// How many bytes of message contents may be in flight inside the server.
    pub bytes_in_flight_max: u64,
    /// The same for one tenant.
    pub tenant_bytes_in_flight_max: u64,
}

/// Whose requests are accepted.
#[derive(Debug, Clone)]
pub struct AuthOptions {
    /// Whether any credentials are accepted.
    pub dev: bool,
    /// The known access keys; their ids are distinct.
    pub keys: Vec<Key>,
}

/// Who may change how the server runs.
#[derive(Debug, Clone)]
pub struct AdminOptions {
    /// What operators prove themselves with; `None` if nobody can, but for everybody under `--dev`.
    pub token: Option<AdminToken>,
}

/// What is logged.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// A level, or a list of levels by part.
    pub level: String,
    /// How a line is written.
    pub format: LogFormat,
}

/// Whether the waits of SQS are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limits {
    /// 60 seconds before a deleted name is used again and between purges, as SQS has it.
    Strict,
    /// No such waits.
    Relaxed,
}

/// When a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// When the disk has what it changed.
    Always,
    /// When the operating system has it.
    Off,
}

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// To be read by people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Options {
    /// Returns every option's value with its origin; access keys are not among them.
    pub fn origins(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter()
    }
}

/// Reads flags, environment and file, and checks what they say together.
pub fn load(
    flags: &Flags,
    environment: Environment<'_>,
    read_file: ReadFile<'_>,
) -> Result<Options, ConfigError> {
    let mut file = find_file(&Raw::merge(flags, environment, &File::default())?, read_file)?;
    let data_dir =
        Raw::merge(flags, environment, &file)?.parse(&table::DATA_DIR, |text| Some(PathBuf::from(text)))?;
    node_file::add(&mut file, &data_dir, read_file)?;
    let raw = Raw::merge(flags, environment, &file)?;
    let auth = AuthOptions {
        dev: raw.is_set(&table::DEV),
        keys: keys::check(&file.keys, environment, read_file)?,
    };
    let server = server_options(&raw)?;
    check_exposure(&raw, server.bind, &auth)?;
    let store = StoreOptions {
        data_dir,
        fsync: raw.choice(&table::FSYNC, [Fsync::Always, Fsync::Off])?,
        segment_bytes: raw.number(&table::SEGMENT_BYTES)?,
        snapshot_log_bytes: raw.number(&table::SNAPSHOT_LOG_BYTES)?,
        reserve_bytes: match raw.text(&table::RESERVE_BYTES) {
            Some(_) => Some(raw.number(&table::RESERVE_BYTES)?),
            None => None,
        },
        cache_bytes: raw.number(&table::CACHE_BYTES)?,
    };
    let broker = BrokerOptions {
        inbox_commands_max: raw.number(&table::INBOX_COMMANDS_MAX)?,
        in_flight_max: raw.number(&table::IN_FLIGHT_MAX)?,
        deduplication_ids_max: raw.number(&table::DEDUPLICATION_IDS_MAX)?,
        bytes_in_flight_max: raw.number(&table::BYTES_IN_FLIGHT_MAX)?,
        tenant_bytes_in_flight_max: raw.number(&table::TENANT_BYTES_IN_FLIGHT_MAX)?,
    };
    let log = LogOptions {
        level: raw.parse(&table::LOG_LEVEL, |text| {
            is_log_level(text).then(|| text.to_owned())
        })?,
        format: raw.choice(&table::LOG_FORMAT, [LogFormat::Text, LogFormat::Json])?,
    };
    let admin = AdminOptions {
        token: admin_token(&raw, environment, read_file)?,
    };
    let faults = raw.text(&table::FAULTS).map(PathBuf::from);
    if faults.is_some() && !auth.dev {
        return Err(ConfigError::new(
            "a file of faults is named, and the server is not started for development",
            "the disk and the clock would fail on purpose",
            "leave it out, or start with --dev",
        )
        .at(raw.origin(&table::FAULTS)));
    }
    let mut warnings = warnings(&auth, &store);
    let cluster = cluster::check(&raw, environment, read_file, &mut warnings)?;
    Ok(Options {
        warnings,
        server,
        store,
        broker,
        cluster,
        auth,
        admin,
        log,
        faults,
        settings: raw.into_settings(),
    })
}

/// Does [`load`] with the environment and the files of this process.
pub fn load_from_process(flags: &Flags) -> Result<Options, ConfigError> {
    let environment = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    load(flags, &environment, &|path| std::fs::read_to_string(path))
}

/// Reads the file that was named, or else the first that is where one usually is.
fn find_file(raw: &Raw, read_file: ReadFile<'_>) -> Result<File, ConfigError> {
    let refuse = |path: &Path, error: &io::Error, origin| {
        let what = format!("the configuration file {} cannot be read", path.display());
        Err(ConfigError::new(what, error.to_string(), "name a file that the server can read").at(origin))
    };
    if let Some(path) = raw.text(&table::CONFIG).map(Path::new) {
        return match read_file(path) {
            Ok(text) => File::parse(path, &text),
            Err(error) => refuse(path, &error, raw.origin(&table::CONFIG)),
        };
    }
    for path in file::usual_places() {
        match read_file(&path) {
            Ok(text) => return File::parse(&path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // A file that is there and cannot be read may hold the keys: to go on without them is no service.
            Err(error) => {
                return refuse(
                    &path,
                    &error,
                    Origin::File {
                        path: path.clone(),
                        line: 0,
                    },
                );
            }
        }
    }
    Ok(File::default())
}

fn server_options(raw: &Raw) -> Result<ServerOptions, ConfigError> {
    let port = raw.number(&table::PORT)?;
    let control_port = raw.number(&table::CONTROL_PORT)?;
    if port == control_port && port != 0 {
        return Err(ConfigError::new(
            format!("server.port and server.control_port are both {port}"),
            "each is a socket of its own",
            "choose another port for one of them, or 0 for a free one",
        )
        .at(raw.origin(&table::PORT))
        .at(raw.origin(&table::CONTROL_PORT)));
    }
    let public_url = match raw.text(&table::PUBLIC_URL) {
        Some(_) => Some(raw.parse(&table::PUBLIC_URL, base_url)?),
        None => None,
    };
    Ok(ServerOptions {
        bind: raw.parse(&table::BIND, |text| text.parse().ok())?,
        port,
        control_port,
        region: raw.parse(&table::REGION, |text| text.parse().ok())?,
        public_url,
        limits: raw.choice(&table::LIMITS, [Limits::Strict, Limits::Relaxed])?,
        connections_max: raw.number(&table::CONNECTIONS_MAX)?,
        request_bytes_in_flight_max: raw.number(&table::REQUEST_BYTES_IN_FLIGHT_MAX)?,
    })
}

fn admin_token(
    raw: &Raw,
    environment: Environment<'_>,
    read_file: ReadFile<'_>,
) -> Result<Option<AdminToken>, ConfigError> {
    let option = &table::ADMIN_TOKEN;
    let read = |text| secret::read(option.name, text, &raw.origin(option), environment, read_file);
    Ok(raw.given(option).map(read).transpose()?.map(AdminToken::new))
}

/// Refuses a server that anybody on the network could use.
fn check_exposure(raw: &Raw, bind: IpAddr, auth: &AuthOptions) -> Result<(), ConfigError> {
    if bind.to_canonical().is_loopback() || (!auth.dev && !auth.keys.is_empty()) {
        return Ok(());
    }
    let what = format!("other machines could reach {bind}, and every request would be accepted");
    let error = if auth.dev {
        ConfigError::new(
            what,
            "--dev accepts any credentials",
            "--bind 127.0.0.1, or leave out --dev and put a [[key]] into the configuration file",
        )
    } else {
        ConfigError::new(
            format!("other machines could reach {bind}, and no request would be accepted"),
            "there is no access key",
            "put a [[key]] with account, access_key_id and secret_access_key into the configuration file",
        )
    };
    let error = error.at(raw.origin(&table::BIND));
    Err(if auth.dev {
        error.at(raw.origin(&table::DEV))
    } else {
        error
    })
}

fn warnings(auth: &AuthOptions, store: &StoreOptions) -> Vec<String> {
    let mut warnings = Vec::new();
    if !auth.dev && auth.keys.is_empty() {
        warnings.push(
            "there is no access key, so every request will be refused: put a [[key]] into the configuration file, \
             or start with --dev"
                .to_owned(),
        );
    }
    if auth.dev && !auth.keys.is_empty() {
        warnings.push(
            "the access keys of the configuration file are not checked, because --dev accepts any credentials: \
             leave out --dev to have them checked"
                .to_owned(),
        );
    }
    if store.fsync == Fsync::Off {
        warnings.push(
            "store.fsync is off, so a power cut can lose requests that were answered: set it to always to keep them"
                .to_owned(),
        );
    }
    warnings
}

/// Reads a URL of scheme, authority and perhaps a path, and returns it without a slash at the end.
fn base_url(text: &str) -> Option<String> {
    let url: http::Uri = text.parse().ok()?;
    let is_web = matches!(url.scheme_str(), Some("http" | "https"));
    let authority = url
        .authority()
        .filter(|authority| !authority.as_str().contains('@'))?;
    // An empty part would be lost by proxies that merge slashes, and signatures cover the path.
    let path = url.path().trim_end_matches('/');
    let is_bare = !path.contains("//") && url.query().is_none() && !text.contains('#');
    let scheme = url.scheme_str().unwrap_or_default();
    (is_web && is_bare).then(|| format!("{scheme}://{authority}{path}"))
}

fn is_log_level(text: &str) -> bool {
    let is_level = |level: &str| matches!(level, "error" | "warn" | "info" | "debug" | "trace" | "off");
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b':'))
    };
    text.split(',')
        .map(str::trim)
        .all(|directive| match directive.split_once('=') {
            Some((part, level)) => is_part(part) && is_level(level),
            None => is_level(directive),
        })
}

impl fmt::Display for Fsync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Always => "always",
            Self::Off => "off",
        })
    }
}
