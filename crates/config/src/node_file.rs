//! The settings that a data directory holds itself: those of the cluster that its node belongs to. `holdfast cluster init` and
//! `holdfast cluster join` write them; flags, environment and configuration file go before them.

use std::fmt;
use std::io;
use std::path::Path;

use crate::error::ConfigError;
use crate::file::File;
use crate::options::ReadFile;
use crate::origin::Origin;

/// The file in the data directory.
pub const NODE_FILE: &str = "cluster.toml";

/// What a data directory says of its node.
#[derive(Clone)]
pub struct NodeFile<'a> {
    /// `cluster.name`.
    pub name: &'a str,
    /// `cluster.listen`.
    pub listen: &'a str,
    /// `cluster.advertise`.
    pub advertise: &'a str,
    /// `cluster.seeds`.
    pub seeds: &'a [String],
    /// `cluster.secret`.
    pub secret: &'a str,
}

impl fmt::Debug for NodeFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeFile")
            .field("advertise", &self.advertise)
            .field("seeds", &self.seeds)
            .finish_non_exhaustive()
    }
}

impl NodeFile<'_> {
    /// Returns the text of the file. It holds the secret, and is for its owner alone.
    pub fn text(&self) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let seeds: Vec<String> = self.seeds.iter().map(|seed| quoted(seed)).collect();
        format!(
            "# The cluster that this data directory belongs to. Flags, environment and configuration file go before it.\n\
             [cluster]\nname = {}\nlisten = {}\nadvertise = {}\nseeds = [{}]\nsecret = {}\n",
            quoted(self.name),
            quoted(self.listen),
            quoted(self.advertise),
            seeds.join(", "),
            quoted(self.secret),
        )
    }
}

/// Adds what the data directory says to what the configuration file does not.
pub(crate) fn add(file: &mut File, data_dir: &Path, read_file: ReadFile<'_>) -> Result<(), ConfigError> {
    let path = data_dir.join(NODE_FILE);
    let text = match read_file(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let what = format!("{} cannot be read", path.display());
            let refusal = ConfigError::new(
                what,
                error.to_string(),
                "let the server read it: it is its owner's alone",
            );
            return Err(refusal.at(Origin::File { path, line: 0 }));
        }
    };
    let own = File::parse(&path, &text)?;
    let other = own.options.iter().find(|(name, _)| !name.starts_with("cluster."));
    if let Some((name, value)) = other {
        return Err(ConfigError::new(
            format!("{name} is set in the data directory"),
            "the file there is of the node's cluster alone",
            "set it in the configuration file",
        )
        .at(value.origin.clone()));
    }
    for (name, value) in own.options {
        file.options.entry(name).or_insert(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Flags;

    fn loaded(
        files: &[(&str, &str)],
        variables: &[(&str, &str)],
    ) -> Result<crate::options::Options, ConfigError> {
        let mut flags = Flags::default();
        flags.set("data-dir", "data");
        let environment = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, text)| (*text).to_owned())
        };
        let read_file = |path: &Path| {
            let found = files.iter().find(|(file, _)| Path::new(file) == path);
            found
                .map(|(_, text)| (*text).to_owned())
                .ok_or(io::ErrorKind::NotFound.into())
        };
        crate::options::load(&flags, &environment, &read_file)
    }

    #[test]
    fn a_data_directory_names_its_cluster_and_everything_else_goes_before_it() {
        let seeds = ["a:7901".to_owned(), "b:7901".to_owned()];
        let text = NodeFile {
            name: "prod \"a\"",
            listen: "0.0.0.0:7901",
            advertise: "b:7901",
            seeds: &seeds,
            secret: "a secret that is long enough \\ for all",
        }
        .text();
        let own = ("data/cluster.toml", text.as_str());
        let cluster = loaded(&[own], &[]).unwrap().cluster.unwrap();
        assert_eq!(cluster.name, "prod \"a\"");
        assert_eq!(cluster.advertise.to_string(), "b:7901");
        assert_eq!(cluster.seeds.len(), 2);
        let crate::ClusterSecurity::Secret { current, .. } = cluster.security else {
            panic!("there is a secret")
        };
        assert_eq!(current.expose(), b"a secret that is long enough \\ for all");
        let cluster = loaded(&[own], &[("HOLDFAST_CLUSTER_NAME", "other")]).unwrap();
        assert_eq!(cluster.cluster.unwrap().name, "other");
        assert!(loaded(&[], &[]).unwrap().cluster.is_none());
    }

    #[test]
    fn a_data_directory_sets_nothing_but_its_cluster() {
        let error = loaded(&[("data/cluster.toml", "[server]\nport = 1\n")], &[]).unwrap_err();
        assert!(error.to_string().contains("server.port"), "{error}");
    }
}
