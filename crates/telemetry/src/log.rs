//! The log: lines on standard error, to read or as JSON.

use std::io::{self, IsTerminal};

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Parts that say at info what is for their own developers.
const QUIET: &str = "openraft=warn";

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// To be read by people; in colour on a terminal.
    Text,
    /// One JSON object a line.
    Json,
}

/// Why the log was not started.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level is none.
    #[error("not a log level: {0}")]
    Level(#[from] tracing_subscriber::filter::ParseError),
    /// The process has a log already.
    #[error("the log is already started")]
    Started,
}

/// Starts the log of this process. The level is a word, or a list of levels by part such as `info,broker=debug`.
pub fn init_log(level: &str, format: LogFormat) -> Result<(), LogError> {
    let is_coloured =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let subscriber = subscriber(level, format, is_coloured, io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::Started)
}

fn subscriber<W>(
    level: &str,
    format: LogFormat,
    is_coloured: bool,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, LogError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // What `level` says of the same part counts more.
    let level = format!("{QUIET},{level}");
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(level)?)
        .with_writer(writer);
    Ok(match format {
        LogFormat::Text => Box::new(builder.with_ansi(is_coloured).finish()),
        LogFormat::Json => Box::new(builder.json().flatten_event(true).finish()),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(level: &str, format: LogFormat) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = subscriber(level, format, false, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(port = 4100, "listening");
            tracing::debug!(target: "broker", "committed");
            tracing::debug!(target: "journal", "synced");
        });
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_line_of_text_has_its_fields_and_no_colour() {
        let text = logged("info,broker=debug", LogFormat::Text);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(
            lines[0].contains("INFO") && lines[0].ends_with("listening port=4100"),
            "{text}"
        );
        assert!(lines[1].ends_with("broker: committed"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_line_of_json_has_its_fields_at_the_top() {
        let text = logged("info", LogFormat::Json);
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&line["message"], &line["port"]),
            (&"listening".into(), &4100.into())
        );
        assert_eq!(line["level"], "INFO");
    }

    #[test]
    fn a_level_that_is_none_is_refused() {
        assert!(matches!(
            init_log("broker=loud", LogFormat::Text),
            Err(LogError::Level(_))
        ));
    }
}
