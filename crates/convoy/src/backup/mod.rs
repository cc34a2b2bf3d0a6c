//! `convoy backup` and `convoy restore`: convoy's objects out of a store and into one, as they are, with their uids and statuses.
//! An object that was made anew through the API would have another uid, and its objects on the targets would be another's.

mod archive;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{ArgGroup, Args};
use convoy_apiserver::metrics::Metrics;
use convoy_storage::{ListOptions, Storage, StorageError};
use serde_json::Value;

use self::archive::{Entry, PREFIX, Reader, Writer};
use crate::aggregated::arguments::EtcdConnection;
use crate::aggregated::etcd;
use crate::standalone::{self, DataDir};

/// How many objects are read at a time.
const PAGE: usize = 200;

/// Write all of convoy's objects, as they are at one moment, into a file. Secrets are not among them.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("store").args(["data_dir", "etcd_servers"]).required(true)))]
pub(crate) struct Backup {
    #[command(flatten)]
    store: Store,
    /// The file. One that is there is replaced, when the new one is whole.
    file: PathBuf,
}

/// Put the objects of a backup into an empty store, with their uids and statuses. No apiserver may run on it meanwhile.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("store").args(["data_dir", "etcd_servers"]).required(true)))]
pub(crate) struct Restore {
    #[command(flatten)]
    store: Store,
    /// Also into a store that has objects of convoy: they stay as they are, and only what is missing is added. For a restore
    /// that was broken off.
    #[arg(long)]
    keep_existing: bool,
    /// Only say what would be restored.
    #[arg(long)]
    dry_run: bool,
    /// The backup.
    file: PathBuf,
}

/// Where the objects are.
#[derive(Debug, Args)]
struct Store {
    #[command(flatten)]
    etcd: EtcdConnection,
    /// The --data-dir of an apiserver or a standalone that has ended.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Store {
    async fn open(&self, is_made: bool) -> anyhow::Result<Arc<dyn Storage>> {
        let metrics = Arc::new(Metrics::default());
        if let Some(etcd) = etcd::connect(&self.etcd, Duration::ZERO, &metrics)? {
            return Ok(etcd);
        }
        let folder = self.data_dir.clone().unwrap_or_default();
        if !is_made && !folder.is_dir() {
            bail!("there is no folder {}", folder.display());
        }
        let data_dir = DataDir::open(&folder)?;
        if !is_made && !data_dir.store().is_file() {
            bail!("{} holds no store of convoy", folder.display());
        }
        standalone::open_store(&data_dir).await
    }
}

/// How many objects of each kind, by plural.
type Counts = BTreeMap<String, usize>;

fn count(counts: &mut Counts, key: &str) {
    let plural = key.strip_prefix(PREFIX).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    *counts.entry(plural.to_owned()).or_default() += 1;
}

fn told(counts: &Counts) -> String {
    let parts: Vec<String> = counts.iter().map(|(plural, count)| format!("{count} {plural}")).collect();
    if parts.is_empty() { "no objects".to_owned() } else { parts.join(", ") }
}

/// Runs `convoy backup`.
pub(crate) async fn back_up(arguments: &Backup) -> anyhow::Result<()> {
    let storage = arguments.store.open(false).await?;
    let file = &arguments.file;
    let partial = beside(file);
    let made = write(&*storage, &partial).await;
    let counts = match made {
        Ok(counts) => counts,
        Err(error) => {
            // What is not whole is of no use; that it may stay is less than what went wrong.
            let _ = std::fs::remove_file(&partial);
            return Err(error);
        }
    };
    std::fs::rename(&partial, file).with_context(|| format!("writing {}", file.display()))?;
    println!("{} holds {}", file.display(), told(&counts));
    Ok(())
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    file.with_file_name(name)
}

async fn write(storage: &dyn Storage, path: &Path) -> anyhow::Result<Counts> {
    let writing = || format!("writing {}", path.display());
    let file = File::create(path).with_context(writing)?;
    let mut writer = Writer::start(BufWriter::new(file)).with_context(writing)?;
    let mut counts = Counts::new();
    let (mut revision, mut after) = (None, None::<Arc<str>>);
    loop {
        let options = ListOptions { revision, after: after.as_deref(), limit: PAGE };
        let page = storage.list(PREFIX, options).await.context("reading the store")?;
        // All pages are of one moment.
        revision = Some(page.revision);
        for item in &page.items {
            let object = serde_json::from_slice(&item.value)
                .with_context(|| format!("{} is not JSON: it was not written by convoy", item.key))?;
            count(&mut counts, &item.key);
            writer.object(&Entry { key: item.key.to_string(), object }).with_context(writing)?;
        }
        match page.items.last() {
            Some(last) if page.remaining > 0 => after = Some(Arc::clone(&last.key)),
            _ => break,
        }
    }
    let mut file = writer.finish().with_context(writing)?;
    file.flush().with_context(writing)?;
    file.get_ref().sync_all().with_context(writing)?;
    Ok(counts)
}

/// Runs `convoy restore`.
pub(crate) async fn restore(arguments: &Restore) -> anyhow::Result<()> {
    let file = &arguments.file;
    let reading = || format!("{} cannot be restored from", file.display());
    // Nothing is written from a file that is not whole.
    let mut counts = Counts::new();
    for entry in open(file).with_context(reading)? {
        count(&mut counts, &entry.with_context(reading)?.key);
    }
    let storage = arguments.store.open(true).await?;
    let there = storage.list(PREFIX, ListOptions { limit: 1, ..ListOptions::default() }).await;
    let there = there.context("reading the store")?;
    if let Some(first) = there.items.first()
        && !arguments.keep_existing
    {
        let objects = there.remaining + 1;
        bail!(
            "the store has {objects} objects of convoy, {} for one; give --keep-existing to add only what is missing",
            first.key.strip_prefix(PREFIX).unwrap_or_default()
        );
    }
    if arguments.dry_run {
        println!("{} would be restored", told(&counts));
        return Ok(());
    }
    let (mut restored, mut equal, mut kept) = (Counts::new(), 0, 0);
    for entry in open(file).with_context(reading)? {
        let entry = entry.with_context(reading)?;
        let value = serde_json::to_vec(&entry.object).context("writing an object")?;
        match storage.create(&entry.key, value.into()).await {
            Ok(_) => count(&mut restored, &entry.key),
            Err(StorageError::AlreadyExists { current }) => {
                let is_equal =
                    serde_json::from_slice::<Value>(&current.value).is_ok_and(|it| it == entry.object);
                if is_equal { equal += 1 } else { kept += 1 }
            }
            Err(error) => {
                let key = entry.key.strip_prefix(PREFIX).unwrap_or_default().to_owned();
                return Err(error).with_context(|| {
                    format!("restoring {key}; {} were restored before it", told(&restored))
                });
            }
        }
    }
    println!("{} restored, {equal} were there already, {kept} others stayed as they were", told(&restored));
    Ok(())
}

fn open(file: &Path) -> anyhow::Result<Reader<BufReader<File>>> {
    let file = File::open(file).context("opening it")?;
    Ok(Reader::start(BufReader::new(file))?)
}
