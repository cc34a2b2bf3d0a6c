//! Flags that convoy's apiserver shares with kube-apiserver: their names, and what they default to, are Kubernetes' own.

use std::path::PathBuf;

use clap::Args;
use convoy_api::Duration;

/// How to reach the etcd that holds convoy's objects.
#[derive(Debug, Clone, Args)]
pub(crate) struct EtcdConnection {
    /// The URLs of the etcd servers that hold the objects, separated by commas. Without it they are kept in --data-dir.
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    pub(crate) etcd_servers: Vec<String>,
    /// What all keys in etcd begin with.
    #[arg(long, value_parser = etcd_prefix, value_name = "PREFIX", default_value = "/registry")]
    pub(crate) etcd_prefix: String,
    /// The CA of etcd's serving certificates, in PEM. Default: the system's CAs.
    #[arg(long, value_name = "FILE", requires = "etcd_servers")]
    pub(crate) etcd_cafile: Option<PathBuf>,
    /// The client certificate that is shown to etcd, in PEM.
    #[arg(long, value_name = "FILE", requires_all = ["etcd_servers", "etcd_keyfile"])]
    pub(crate) etcd_certfile: Option<PathBuf>,
    /// The private key of --etcd-certfile, in PEM.
    #[arg(long, value_name = "FILE", requires_all = ["etcd_servers", "etcd_certfile"])]
    pub(crate) etcd_keyfile: Option<PathBuf>,
}

/// The etcd that holds convoy's objects.
#[derive(Debug, Clone, Args)]
pub(crate) struct Etcd {
    #[command(flatten)]
    pub(crate) connection: EtcdConnection,
    /// How often etcd is told to forget history that is as old as this; 0 when others tell it. Of several API servers
    /// on one etcd, one does it.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub(crate) etcd_compaction_interval: Duration,
    /// How long etcd may take to answer the health check `etcd`.
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub(crate) etcd_healthcheck_timeout: Duration,
    /// How long etcd may take to answer the readiness check `etcd-readiness`.
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub(crate) etcd_readycheck_timeout: Duration,
    /// How often the objects in etcd are counted for the metrics; 0 for never.
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    pub(crate) etcd_count_metric_poll_period: Duration,
}

fn etcd_prefix(text: &str) -> Result<String, String> {
    let prefix = text.trim_end_matches('/');
    if prefix.starts_with('/') { Ok(prefix.to_owned()) } else { Err("it does not begin with /".to_owned()) }
}

/// The serving certificate.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServingFiles {
    /// The serving certificate, in PEM, for the name of the Service that leads here. It is read anew when it changes.
    /// Default: one that this replica makes for itself, which no CA signed.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file", conflicts_with = "data_dir")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// The private key of --tls-cert-file, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// How long requests are still taken after readiness fails because the process is to end, so that nobody sends more.
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    pub(crate) shutdown_delay_duration: Duration,
}

/// How users are known, and what they may, in a server behind kube-aggregator.
#[derive(Debug, Clone, Args)]
pub(crate) struct Delegation {
    /// The kubeconfig of the API server that is asked who bearer tokens belong to, and that says whom to trust. Default:
    /// --kubeconfig.
    #[arg(long, value_name = "FILE", conflicts_with = "data_dir")]
    pub(crate) authentication_kubeconfig: Option<PathBuf>,
    /// Do not ask that API server whom to trust: only the CAs that flags name are.
    #[arg(long, conflicts_with = "data_dir")]
    pub(crate) authentication_skip_lookup: bool,
    /// How long the answer about a bearer token is remembered.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) authentication_token_webhook_cache_ttl: Duration,
    /// The kubeconfig of the API server that is asked what users may do. Default: --kubeconfig.
    #[arg(long, value_name = "FILE", conflicts_with = "data_dir")]
    pub(crate) authorization_kubeconfig: Option<PathBuf>,
    /// Paths that everybody may read without that API server being asked. A * at the end stands for any rest.
    #[arg(long, value_delimiter = ',', value_name = "PATH", default_value = "/healthz,/readyz,/livez")]
    pub(crate) authorization_always_allow_paths: Vec<String>,
    /// How long it is remembered that a user may do something.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) authorization_webhook_cache_authorized_ttl: Duration,
    /// How long it is remembered that a user may not do something.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) authorization_webhook_cache_unauthorized_ttl: Duration,
    /// The CA of users' client certificates, in PEM. Default: what ConfigMap
    /// kube-system/extension-apiserver-authentication says.
    #[arg(long, value_name = "FILE", conflicts_with = "data_dir")]
    pub(crate) client_ca_file: Option<PathBuf>,
    /// The CA of the front proxy's client certificate, in PEM: who has one may say in headers who a user is. Default, also
    /// for the flags that follow: what ConfigMap kube-system/extension-apiserver-authentication says.
    #[arg(long, value_name = "FILE", conflicts_with = "data_dir")]
    pub(crate) requestheader_client_ca_file: Option<PathBuf>,
    /// Common names that the front proxy's certificate may have; any when there are none.
    #[arg(long, value_delimiter = ',', value_name = "NAME", requires = "requestheader_client_ca_file")]
    pub(crate) requestheader_allowed_names: Vec<String>,
    /// Headers with the user's name.
    #[arg(long, value_delimiter = ',', value_name = "HEADER", default_value = "x-remote-user")]
    pub(crate) requestheader_username_headers: Vec<String>,
    /// Headers with the user's uid.
    #[arg(long, value_delimiter = ',', value_name = "HEADER", default_value = "x-remote-uid")]
    pub(crate) requestheader_uid_headers: Vec<String>,
    /// Headers with the user's groups.
    #[arg(long, value_delimiter = ',', value_name = "HEADER", default_value = "x-remote-group")]
    pub(crate) requestheader_group_headers: Vec<String>,
    /// Beginnings of headers with more about the user.
    #[arg(long, value_delimiter = ',', value_name = "PREFIX", default_value = "x-remote-extra-")]
    pub(crate) requestheader_extra_headers_prefix: Vec<String>,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use crate::arguments::{Arguments, Command};

    #[test]
    fn sc57_etcd_flags_have_the_names_and_defaults_of_kube_apiserver() {
        let command = Arguments::command();
        let apiserver = command.find_subcommand("apiserver").unwrap();
        // As `kube-apiserver --help` says.
        for (flag, default) in [
            ("etcd-servers", ""),
            ("etcd-prefix", "/registry"),
            ("etcd-cafile", ""),
            ("etcd-certfile", ""),
            ("etcd-keyfile", ""),
            ("etcd-compaction-interval", "5m"),
            ("etcd-healthcheck-timeout", "2s"),
            ("etcd-readycheck-timeout", "2s"),
            ("etcd-count-metric-poll-period", "1m"),
        ] {
            let found = apiserver.get_arguments().find(|argument| argument.get_long() == Some(flag)).unwrap();
            let defaults: Vec<_> =
                found.get_default_values().iter().map(|text| text.to_string_lossy()).collect();
            assert_eq!(defaults.join(","), default, "{flag}");
        }
    }

    #[test]
    fn several_servers_are_given_in_one_flag_or_in_several_and_a_place_for_objects_is_needed() {
        let parse =
            |line: &str| Arguments::try_parse_from(line.split(' ')).map(|arguments| arguments.command);
        let one = parse(
            "convoy apiserver --etcd-servers=http://a,http://b --etcd-servers=http://c --etcd-prefix=/x/",
        );
        let Ok(Command::Apiserver(apiserver)) = one else { panic!("{one:?}") };
        assert_eq!(apiserver.etcd.connection.etcd_servers, ["http://a", "http://b", "http://c"]);
        assert_eq!(apiserver.etcd.connection.etcd_prefix, "/x");
        for line in [
            "convoy apiserver",
            "convoy apiserver --etcd-servers=http://a --etcd-certfile=c",
            "convoy apiserver --etcd-servers=http://a --tls-cert-file=c",
            "convoy apiserver --data-dir=d --tls-cert-file=c --tls-private-key-file=k",
            "convoy apiserver --data-dir=d --client-ca-file=c",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
