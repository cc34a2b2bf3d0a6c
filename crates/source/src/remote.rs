//! A repository behind smart HTTP or SSH: handshake, references, one shallow pack.

use std::cell::Cell;
use std::rc::Rc;

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::progress::Discard;
use gix::protocol::handshake::Ref;
use gix::protocol::transport::{Protocol, Service};
use gix::protocol::{Handshake, LsRefsCommand, fetch, ls_refs};
use gix_transport::client::blocking_io::Transport;
use gix_transport::client::blocking_io::http::Transport as Http;
use gix_transport::client::git::ConnectMode;
use gix_transport::client::git::blocking_io::Connection;

use crate::error::Failure;
use crate::exchange::{Budget, Failed, Shared};
use crate::fetcher::{FetchRequest, FetcherOptions, Found, NotCommits, Tip, Work};
use crate::http::Client;
use crate::reference::{BRANCHES, GitRef, TAGS, VersionRange};
use crate::{ssh, tree};

const AGENT: &str = concat!("convoy/", env!("CARGO_PKG_VERSION"));

/// Tags that are tried, the newest version first, until one names a commit.
const MAX_TRIED_TAGS: usize = 10;

/// Resolves the reference, and reads its tree unless it is where the caller saw it last.
pub(crate) fn fetch_tree(work: Work<'_>, not_commits: &NotCommits) -> Result<Found, Failure> {
    let request = work.request;
    let mut server = Server::greet(work)?;
    let tip = match (&request.reference, request.reference.full_name()) {
        (reference, Some(name)) => find(&server.references(&name)?, &name, reference)?,
        (GitRef::Semver(range), None) => return newest_tag(server, range, not_commits),
        (GitRef::CommitOn(id, branch), None) => {
            return match server.receive(&Tip::of_commit(id.0), id.0, Depth::One) {
                // Servers of the first version of the protocol hand out by id what a name stands for.
                Err(Failure::CommitNotFound) => {
                    let mut server = Server::greet(work)?;
                    let name = format!("{BRANCHES}{}", branch.as_str());
                    let tip = find(&server.references(&name)?, &name, &request.reference)?;
                    server.receive(&Tip { want: tip.want, ..Tip::of_commit(id.0) }, id.0, Depth::All)
                }
                found => found,
            };
        }
        (GitRef::Commit(id), None) => Tip::of_commit(id.0),
        (_, None) => return Err(Failure::ReferenceNotFound),
    };
    if request.is_known(&tip) {
        return Ok(Found::Unchanged(tip));
    }
    server.receive(&tip, tip.object, Depth::One)
}

/// The newest version in a range of those tags that name commits.
fn newest_tag(
    mut server: Server<'_>,
    range: &VersionRange,
    not_commits: &NotCommits,
) -> Result<Found, Failure> {
    let work = server.work;
    let tags = server.references(TAGS)?;
    let tags = tags.iter().filter_map(|found| {
        let (name, target, peeled) = found.unpack();
        let name = name.to_str().ok()?.strip_prefix(TAGS)?.to_owned();
        let want = target.or(peeled)?.to_owned();
        Some((name, (want, peeled.unwrap_or(&want).to_owned())))
    });
    let candidates = range.newest_first(tags.collect());
    let mut server = Some(server);
    let mut tried = 0;
    for (name, (want, object)) in candidates {
        if not_commits.has(object) {
            continue;
        }
        let tip = Tip { name: Some(name), object, want };
        if work.request.is_known(&tip) {
            return Ok(Found::Unchanged(tip));
        }
        tried += 1;
        if tried > MAX_TRIED_TAGS {
            break;
        }
        // A connection is good for one pack.
        let mut here = match server.take() {
            Some(server) => server,
            None => Server::greet(work)?,
        };
        match here.receive(&tip, object, Depth::One) {
            Err(Failure::NotACommit { .. }) => not_commits.add(object),
            found => return found,
        }
    }
    Err(Failure::TagNotFound {
        version: range.as_str().to_owned(),
        there: "none that is a version in this range and names a commit".to_owned(),
    })
}

/// How much of the history is fetched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    One,
    All,
}

/// A server that was greeted.
struct Server<'a> {
    work: Work<'a>,
    shared: Shared,
    transport: Box<dyn Transport>,
    handshake: Handshake,
}

impl<'a> Server<'a> {
    fn greet(work: Work<'a>) -> Result<Self, Failure> {
        let Work { options, request, job, .. } = work;
        let limit = options.limits.max_advertisement_bytes;
        let budget = Budget { what: "references", limit, left: limit };
        let shared =
            Shared { job: job.clone(), failed: Failed::default(), budget: Rc::new(Cell::new(budget)) };
        let mut transport = connect(options, request, &shared)?;
        let handshake = gix::protocol::handshake(
            &mut transport,
            Service::UploadPack,
            // No credential helper: the backend sends what the Secret holds.
            |_| Ok(None),
            Vec::new(),
            &mut Discard,
        );
        let handshake = handshake.map_err(|error| told(&shared.failed, &error))?;
        check_object_format(&handshake)?;
        Ok(Self { work, shared, transport, handshake })
    }

    /// What the server has below a name.
    fn references(&mut self, prefix: &str) -> Result<Vec<Ref>, Failure> {
        if let Some(refs) = self.handshake.refs.take() {
            return Ok(refs);
        }
        let mut prefixes = ls_refs::RefPrefixes::new();
        prefixes.extend([gix::bstr::BString::from(prefix)]);
        let agent = ("agent", Some(AGENT.into()));
        LsRefsCommand::new(Some(prefixes), &self.handshake.capabilities, agent)
            .invoke_blocking(&mut self.transport, &mut Discard, false)
            .map_err(|error| told(&self.shared.failed, &error))
    }

    /// Downloads what `tip` wants, and reads the tree of a commit of it.
    fn receive(&mut self, tip: &Tip, commit: ObjectId, depth: Depth) -> Result<Found, Failure> {
        let Work { options, job, at, mut spent, .. } = self.work;
        let (limits, limit) = (options.limits, options.limits.max_pack_bytes);
        let left = limit.saturating_sub(spent.pack_bytes);
        self.shared.budget.set(Budget { what: "objects", limit, left });
        let scratch = tempfile::Builder::new().prefix("convoy-fetch-").tempdir_in(&options.scratch_dir);
        let scratch = scratch.map_err(Failure::Scratch)?;
        let objects = scratch.path().join("objects");
        let packs = objects.join("pack");
        std::fs::create_dir_all(&packs).map_err(Failure::Scratch)?;
        let shallow = match depth {
            Depth::One if can_be_shallow(&self.handshake) => {
                fetch::Shallow::DepthAtRemote(std::num::NonZeroU32::MIN)
            }
            Depth::One | Depth::All => fetch::Shallow::NoChange,
        };
        // Above the limit for files, so that the walk over the tree can name the file that is too large.
        let object_bytes = limits.max_file_bytes.saturating_mul(4);
        let object_limit = usize::try_from(object_bytes).unwrap_or(usize::MAX);
        let received = gix::protocol::fetch(
            &mut Want(tip.want),
            |pack, progress, cancelled| {
                let write = gix::odb::pack::bundle::write::Options {
                    thread_limit: Some(1),
                    alloc_limit_bytes: Some(object_limit),
                    ..Default::default()
                };
                let none = None::<gix::objs::find::Never>;
                let sha1 = gix::hash::Kind::Sha1;
                gix::odb::pack::Bundle::write_to_directory(
                    pack,
                    Some(&packs),
                    progress,
                    cancelled,
                    none,
                    sha1,
                    write,
                )?;
                Ok(true)
            },
            Discard,
            job.cancelled(),
            fetch::Context {
                handshake: &mut self.handshake,
                transport: &mut self.transport,
                user_agent: ("agent", Some(AGENT.into())),
                trace_packetlines: false,
            },
            fetch::Options {
                shallow_file: scratch.path().join("shallow"),
                shallow: &shallow,
                tags: fetch::Tags::None,
                reject_shallow_remote: false,
            },
        );
        match received {
            Ok(Some(_)) => {}
            Ok(None) => return Err(Failure::Protocol { detail: "the server sent no objects".to_owned() }),
            Err(error) => {
                return Err(match told(&self.shared.failed, &error) {
                    Failure::Protocol { detail } if is_refusal(&detail) => Failure::CommitNotFound,
                    Failure::Protocol { detail } if detail.contains("too large to fit in memory") => {
                        Failure::ObjectTooLarge { limit: object_bytes }
                    }
                    failure => failure,
                });
            }
        }
        let options =
            gix::odb::store::init::Options { alloc_limit_bytes: Some(object_limit), ..Default::default() };
        let database =
            gix::odb::at_opts(&objects, gix::hash::Kind::Sha1, None, options).map_err(Failure::Scratch)?;
        let root = tree::root_of(&database, commit)?;
        spent.pack_bytes = limit.saturating_sub(self.shared.budget.get().left);
        let tree = tree::read(&database, root, at, (limits, spent), job.cancelled())?;
        Ok(Found::New { tip: tip.clone(), tree })
    }
}

fn connect(
    options: &FetcherOptions,
    request: &FetchRequest,
    shared: &Shared,
) -> Result<Box<dyn Transport>, Failure> {
    let (url, credentials) = (&request.url, &request.credentials);
    if let Some(place) = url.ssh_place() {
        let (reader, writer) = ssh::upload_pack(&place, credentials, options.addresses, shared)?;
        let no_host = None::<(String, Option<u16>)>;
        let process = ConnectMode::Process;
        return Ok(Box::new(Connection::new(
            reader,
            writer,
            Protocol::V2,
            place.path,
            no_host,
            process,
            false,
        )));
    }
    let client = Client::new(url, credentials, options.addresses, &options.user_agent, shared.clone())?;
    let url = gix::Url::try_from(url.to_string().as_str())
        .map_err(|error| Failure::Protocol { detail: error.to_string() })?;
    Ok(Box::new(Http::new_http(client, url, Protocol::V2, false)))
}

/// Our own account of what broke, if there is one, else what gix says.
fn told(failed: &Failed, error: &gix::Error) -> Failure {
    let ours = failed.borrow_mut().take();
    ours.unwrap_or_else(|| {
        let mut detail = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause {
            let text = inner.to_string();
            if !detail.contains(&text) {
                detail = format!("{detail}: {text}");
            }
            cause = inner.source();
        }
        Failure::Protocol { detail }
    })
}

/// Whether the server refuses the object. A server of protocol version 0 says so in a plain line where the
/// pack should begin, which gix takes for a broken pack.
fn is_refusal(detail: &str) -> bool {
    detail.contains("not our ref") || detail.contains("decode a non-side channel line")
}

fn check_object_format(handshake: &Handshake) -> Result<(), Failure> {
    let format = handshake
        .capabilities
        .capability("object-format")
        .and_then(|capability| capability.value().map(|value| value.to_str_lossy().into_owned()));
    match format {
        Some(format) if format != "sha1" => Err(Failure::ObjectFormat { format }),
        _ => Ok(()),
    }
}

fn can_be_shallow(handshake: &Handshake) -> bool {
    let capabilities = &handshake.capabilities;
    capabilities.contains("shallow")
        || capabilities.capability("fetch").and_then(|fetch| fetch.supports("shallow")).unwrap_or(false)
}

fn find(refs: &[Ref], name: &str, wanted: &GitRef) -> Result<Tip, Failure> {
    for found in refs {
        // Of an annotated tag, `target` is the tag and `peeled` the object that it names in the end.
        let (full_name, target, peeled) = found.unpack();
        if full_name != name.as_bytes() {
            continue;
        }
        let (Some(object), Some(want)) = (peeled.or(target), target.or(peeled)) else {
            return Err(Failure::Empty);
        };
        let full = match found {
            Ref::Symbolic { target, .. } if *wanted == GitRef::DefaultBranch => {
                target.to_str_lossy().into_owned()
            }
            _ => name.to_owned(),
        };
        return Ok(Tip {
            name: Some(wanted.shown_name(&full)),
            object: object.to_owned(),
            want: want.to_owned(),
        });
    }
    Err(if *wanted == GitRef::DefaultBranch { Failure::Empty } else { Failure::ReferenceNotFound })
}

/// A negotiation without anything to offer: one object is wanted, nothing is at hand.
struct Want(ObjectId);

impl fetch::Negotiate for Want {
    fn mark_complete_and_common_ref(&mut self) -> gix::error::Result<fetch::negotiate::Action> {
        Ok(fetch::negotiate::Action::MustNegotiate { remote_ref_target_known: Vec::new() })
    }

    fn add_wants(&mut self, arguments: &mut fetch::Arguments, _known: &[bool]) -> bool {
        arguments.want(self.0);
        true
    }

    fn one_round(
        &mut self,
        _state: &mut fetch::negotiate::one_round::State,
        _arguments: &mut fetch::Arguments,
        _previous: Option<&fetch::Response>,
    ) -> gix::error::Result<(fetch::negotiate::Round, bool)> {
        let round = fetch::negotiate::Round {
            haves_sent: 0,
            in_vain: 0,
            haves_to_send: 0,
            previous_response_had_at_least_one_in_common: false,
        };
        Ok((round, true))
    }
}
