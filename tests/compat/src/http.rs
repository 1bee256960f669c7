//! HTTP/1.1 on a plain socket, with every byte under the test's control.
//!
//! Deliberately small: no redirects, no pool, no retries. A request that gets no answer is an error here, and the
//! caller decides what that means.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Longer than any long poll.
const ANSWER_LIMIT: Duration = Duration::from_secs(40);

/// One keep-alive connection to a server.
#[derive(Debug)]
pub struct Connection {
    reader: BufReader<TcpStream>,
    host: String,
}

/// What a server answered.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The headers in their order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Reply {
    /// Returns the first header of this name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the body as text, with replacement characters where it is none.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Connection {
    /// Connects to `address`.
    pub fn open(address: SocketAddr) -> Result<Self> {
        let stream =
            TcpStream::connect_timeout(&address, Duration::from_secs(5)).context("cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.set_write_timeout(Some(ANSWER_LIMIT))?;
        Ok(Self {
            reader: BufReader::new(stream),
            host: address.to_string(),
        })
    }

    /// Limits how long [`Connection::receive`] waits.
    pub fn set_answer_limit(&mut self, limit: Duration) -> Result<()> {
        Ok(self.reader.get_ref().set_read_timeout(Some(limit))?)
    }

    /// Sends a request with a `content-length` and waits for its answer.
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Reply> {
        let request = self.encode(method, path, headers, body);
        self.send(&request)?;
        self.receive()
    }

    /// Returns the bytes of a request with a `content-length`.
    pub fn encode(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.host);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let mut request = head.into_bytes();
        request.extend_from_slice(body);
        request
    }

    /// Writes bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.reader
            .get_mut()
            .write_all(bytes)
            .context("cannot write to the server")
    }

    /// Tells the server that nothing more will be written; reading stays open.
    pub fn finish_writing(&mut self) -> Result<()> {
        Ok(self.reader.get_ref().shutdown(Shutdown::Write)?)
    }

    /// Reads one answer.
    pub fn receive(&mut self) -> Result<Reply> {
        loop {
            let reply = self.receive_any()?;
            if reply.status >= 200 {
                return Ok(reply);
            }
        }
    }

    /// Returns true when the server closes the connection within the answer limit, without another byte.
    pub fn is_closed_by_server(&mut self) -> Result<bool> {
        match self.reader.fill_buf() {
            Ok(bytes) => Ok(bytes.is_empty()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(true),
            Err(error) if is_timeout(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads one answer, or a word that comes before one.
    pub fn receive_any(&mut self) -> Result<Reply> {
        let status_line = self.line()?;
        let status = status_line
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3))
            .and_then(|code| code.parse().ok())
            .with_context(|| format!("not an HTTP status line: {status_line:?}"))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line
                .split_once(':')
                .with_context(|| format!("not a header: {line:?}"))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut reply = Reply {
            status,
            headers,
            body: Vec::new(),
        };
        reply.body = self.body(&reply)?;
        Ok(reply)
    }

    fn body(&mut self, reply: &Reply) -> Result<Vec<u8>> {
        if reply.status < 200 || reply.status == 204 || reply.status == 304 {
            return Ok(Vec::new());
        }
        if let Some(length) = reply.header("content-length") {
            let mut body = vec![0; length.parse().context("content-length is not a number")?];
            self.reader
                .read_exact(&mut body)
                .context("the body ended early")?;
            return Ok(body);
        }
        if reply.header("transfer-encoding") == Some("chunked") {
            return self.chunks();
        }
        let mut body = Vec::new();
        self.reader.read_to_end(&mut body)?;
        Ok(body)
    }

    fn chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let length = usize::from_str_radix(&line, 16).with_context(|| format!("chunk size {line:?}"))?;
            let start = body.len();
            body.resize(start + length, 0);
            self.reader
                .read_exact(&mut body[start..])
                .context("a chunk ended early")?;
            if !self.line()?.is_empty() {
                bail!("a chunk is longer than it says");
            }
            if length == 0 {
                return Ok(body);
            }
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line).context("no answer")?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => bail!("the connection ended instead of answering (after {line:?})"),
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
    )
}
