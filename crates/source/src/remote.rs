//! A repository behind smart HTTP: handshake, references, one shallow pack.

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::progress::Discard;
use gix::protocol::handshake::Ref;
use gix::protocol::transport::{Protocol, Service};
use gix::protocol::{Handshake, LsRefsCommand, fetch, ls_refs};
use gix_transport::client::blocking_io::http::Transport;

use crate::error::Failure;
use crate::exchange::{Budget, Failed};
use crate::fetcher::{FetchRequest, FetcherOptions, Found, Tip};
use crate::http::Client;
use crate::job::Job;
use crate::reference::GitRef;
use crate::tree;

const AGENT: &str = concat!("convoy/", env!("CARGO_PKG_VERSION"));

/// Resolves the reference, and reads its tree unless it is where the caller saw it last.
pub(crate) fn fetch_tree(
    options: &FetcherOptions,
    request: &FetchRequest,
    job: &Job,
) -> Result<Found, Failure> {
    let limits = options.limits;
    let advertisement = Budget {
        what: "references",
        limit: limits.max_advertisement_bytes,
        left: limits.max_advertisement_bytes,
    };
    let client = Client::new(
        &request.url,
        &request.credentials,
        options.addresses,
        &options.user_agent,
        job,
        advertisement,
    )?;
    let (failed, budget) = (client.failed(), client.budget());
    let url = gix::Url::try_from(request.url.to_string().as_str())
        .map_err(|error| Failure::Protocol { detail: error.to_string() })?;
    let mut transport = Transport::new_http(client, url, Protocol::V2, false);

    let handshake = gix::protocol::handshake(
        &mut transport,
        Service::UploadPack,
        // No credential helper: the backend sends what the Secret holds.
        |_| Ok(None),
        Vec::new(),
        &mut Discard,
    );
    let mut handshake = handshake.map_err(|error| told(&failed, &error))?;
    check_object_format(&handshake)?;
    let tip = match request.reference.full_name() {
        Some(name) => {
            let refs =
                references(&mut handshake, &mut transport, &name).map_err(|error| told(&failed, &error))?;
            find(&refs, &name, &request.reference)?
        }
        None => match &request.reference {
            GitRef::Commit(id) => Tip { name: None, object: id.0 },
            GitRef::DefaultBranch | GitRef::Branch(_) | GitRef::Tag(_) => {
                return Err(Failure::ReferenceNotFound);
            }
        },
    };
    if request.is_known(&tip) {
        return Ok(Found::Unchanged(tip));
    }

    budget.set(Budget { what: "objects", limit: limits.max_pack_bytes, left: limits.max_pack_bytes });
    let scratch = tempfile::Builder::new().prefix("convoy-fetch-").tempdir_in(&options.scratch_dir);
    let scratch = scratch.map_err(Failure::Scratch)?;
    let objects = scratch.path().join("objects");
    let packs = objects.join("pack");
    std::fs::create_dir_all(&packs).map_err(Failure::Scratch)?;
    let depth_one = fetch::Shallow::DepthAtRemote(std::num::NonZeroU32::MIN);
    let shallow = if can_be_shallow(&handshake) { depth_one } else { fetch::Shallow::NoChange };
    // Above the limit for files, so that the walk over the tree can name the file that is too large.
    let object_bytes = limits.max_file_bytes.saturating_mul(4);
    let object_limit = usize::try_from(object_bytes).unwrap_or(usize::MAX);
    let received = gix::protocol::fetch(
        &mut Want(tip.object),
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
            handshake: &mut handshake,
            transport: &mut transport,
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
            return Err(match told(&failed, &error) {
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
    let root = tree::root_of(&database, tip.object)?;
    let (folder, notes) = tree::read(&database, root, limits, job.cancelled())?;
    Ok(Found::New { tip, folder, notes })
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

fn references(
    handshake: &mut Handshake,
    transport: &mut Transport<Client>,
    name: &str,
) -> gix::error::Result<Vec<Ref>> {
    if let Some(refs) = handshake.refs.take() {
        return Ok(refs);
    }
    let mut prefixes = ls_refs::RefPrefixes::new();
    prefixes.extend([gix::bstr::BString::from(name)]);
    LsRefsCommand::new(Some(prefixes), &handshake.capabilities, ("agent", Some(AGENT.into())))
        .invoke_blocking(transport, &mut Discard, false)
}

fn find(refs: &[Ref], name: &str, wanted: &GitRef) -> Result<Tip, Failure> {
    let short = |full: &str| {
        let short = full.strip_prefix("refs/heads/").or_else(|| full.strip_prefix("refs/tags/"));
        Some(short.unwrap_or(full).to_owned())
    };
    for found in refs {
        // Of an annotated tag, `target` is the tag and `peeled` the object that it names in the end.
        let (full_name, target, peeled) = found.unpack();
        if full_name != name.as_bytes() {
            continue;
        }
        let Some(object) = peeled.or(target) else { return Err(Failure::Empty) };
        let full = match found {
            Ref::Symbolic { target, .. } => target.to_str_lossy().into_owned(),
            _ => name.to_owned(),
        };
        return Ok(Tip { name: short(&full), object: object.to_owned() });
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
