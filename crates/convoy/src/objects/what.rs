//! Which objects a command line means, by kubectl's rules. Pure.

use convoy_api::{GROUP, KindInfo};

use super::Misuse;

/// A kind and the names of it; no names for all of the kind.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) info: KindInfo,
    pub(super) names: Vec<String>,
}

/// Reads `releases`, `rel web shop`, `releases,clusters`, `release/web cluster/here` and `all`.
pub(super) fn parse(words: &[String]) -> Result<Vec<Wanted>, Misuse> {
    let has_slash = words.iter().any(|word| word.contains('/'));
    if has_slash {
        let mut wanted: Vec<Wanted> = Vec::new();
        for word in words {
            let (kind, name) = word
                .split_once('/')
                .filter(|(_, name)| !name.is_empty())
                .ok_or_else(|| Misuse(format!("{word:?} is not KIND/NAME, as the other arguments are")))?;
            let info = kind_of(kind)?;
            match wanted.iter_mut().find(|wanted| wanted.info.kind == info.kind) {
                Some(wanted) => wanted.names.push(name.to_owned()),
                None => wanted.push(Wanted { info, names: vec![name.to_owned()] }),
            }
        }
        return Ok(wanted);
    }
    let Some((kinds, names)) = words.split_first() else {
        return Ok(vec![Wanted { info: kind_of("releases")?, names: Vec::new() }]);
    };
    let kinds: Vec<KindInfo> = match kinds.as_str() {
        "all" | "convoy" => {
            let of_people =
                convoy_api::kinds().into_iter().filter(|info| info.categories.contains(&"convoy"));
            of_people.collect()
        }
        kinds => kinds.split(',').map(kind_of).collect::<Result<_, _>>()?,
    };
    Ok(kinds.into_iter().map(|info| Wanted { info, names: names.to_vec() }).collect())
}

/// The kind of a name in one of the forms that kubectl takes.
fn kind_of(word: &str) -> Result<KindInfo, Misuse> {
    let word = word.to_lowercase();
    let word = word.strip_suffix(&format!(".{GROUP}")).unwrap_or(&word);
    let is_it =
        |info: &KindInfo| info.plural == word || info.singular == word || info.short_names.contains(&word);
    convoy_api::kinds().into_iter().find(is_it).ok_or_else(|| {
        let known: Vec<&str> = convoy_api::kinds().iter().map(|info| info.plural).collect();
        Misuse(format!("there is no kind {word:?}; there are {}", known.join(", ")))
    })
}

/// An object as kubectl names it.
pub(super) fn shown(info: &KindInfo, name: &str) -> String {
    format!("{}.{GROUP}/{name}", info.singular)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Vec<(&'static str, Vec<String>)>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let wanted = parse(&words).map_err(|error| error.to_string())?;
        Ok(wanted.into_iter().map(|wanted| (wanted.info.kind, wanted.names)).collect())
    }

    #[test]
    fn kinds_and_names_are_read_as_kubectl_reads_them() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (line, want) in [
            ("", vec![("Release", vec![])]),
            ("releases", vec![("Release", vec![])]),
            ("rel web shop", vec![("Release", names(&["web", "shop"]))]),
            ("Release.convoy.kumodo.io web", vec![("Release", names(&["web"]))]),
            ("cl,gitrepo", vec![("Cluster", vec![]), ("GitRepository", vec![])]),
            (
                "release/web cluster/a rel/shop",
                vec![("Release", names(&["web", "shop"])), ("Cluster", names(&["a"]))],
            ),
        ] {
            assert_eq!(parsed(line), Ok(want), "{line}");
        }
        let all = parsed("all").unwrap();
        assert!(all.len() == 5 && all.iter().all(|(kind, _)| *kind != "ReleaseInventory"), "{all:?}");
    }

    #[test]
    fn what_is_no_kind_is_told() {
        for (line, want) in [
            ("pods", "there is no kind \"pods\"; there are clusters, "),
            ("release/web shop", "\"shop\" is not KIND/NAME"),
            ("release/", "\"release/\" is not KIND/NAME"),
        ] {
            assert!(parsed(line).unwrap_err().contains(want), "{line}");
        }
    }
}
