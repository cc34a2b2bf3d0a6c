//! Passwords and ciphers. The ones that are slow on purpose are counted as many steps.

use aes::Aes256;
use aes::cipher::{Block, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use blowfish::Blowfish;
use convoy_gotemplate::{Call, FuncError, Str, Value};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::arguments::{Outcome, int, string, text};
use super::encoding::{base64, base64_decode, bcrypt_base64};
use super::random::bytes;
use super::scrypt;

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

const BCRYPT_COST: u32 = 10;
/// "OrpheanBeholderScryDoubt".
const BCRYPT_TEXT: [[u32; 2]; 3] =
    [[0x4f72_7068, 0x6561_6e42], [0x6568_6f6c, 0x6465_7253], [0x6372_7944, 0x6f75_6274]];
// One slow hash costs as much as so many commands, roughly.
const SLOW_STEPS: u64 = 200_000;
/// N of scrypt is 2 to the power of this.
const SCRYPT_LOG_N: u32 = 15;
/// One of its mixes goes over a kilobyte; all take about as long as five slow hashes.
const MIX_STEPS: u64 = 8;
const BLOCK: usize = 16;

fn hashed(call: &mut Call<'_, '_>, password: &[u8]) -> Result<Str, FuncError> {
    // Go's library refuses what bcrypt would cut off.
    if password.len() > 72 {
        return Ok("failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes".into());
    }
    let random = bytes(call, 16)?;
    let salt: [u8; 16] = random.as_slice().try_into().unwrap_or_default();
    // The hash goes over the password with its final zero.
    let key: Vec<u8> = password.iter().copied().chain([0]).take(72).collect();
    let mut state = Blowfish::bc_init_state();
    state.salted_expand_key(&salt, &key);
    for _ in 0..1u32 << BCRYPT_COST {
        // A turn takes some fifty microseconds.
        call.steps(SLOW_STEPS >> BCRYPT_COST)?;
        state.bc_expand_key(&key);
        state.bc_expand_key(&salt);
    }
    let mut hash = Vec::with_capacity(24);
    for pair in BCRYPT_TEXT {
        let encrypted = (0..64).fold(pair, |pair, _| state.bc_encrypt(pair));
        hash.extend(encrypted.iter().flat_map(|half| half.to_be_bytes()));
    }
    hash.truncate(23);
    Ok(format!("$2a${BCRYPT_COST}${}{}", bcrypt_base64(&salt), bcrypt_base64(&hash)).into())
}

pub(super) fn bcrypt_function(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(hashed(call, &text(args, 0))?)
}

pub(super) fn htpasswd(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let user = text(args, 0);
    if user.contains(&b':') {
        return string(format!("invalid username: {user}"));
    }
    let hash = hashed(call, &text(args, 1))?;
    string([&user[..], b":", &hash[..]].concat())
}

// The templates of the Master Password algorithm: a letter stands for a set of characters.
fn password_templates(kind: &[u8]) -> Option<&'static [&'static str]> {
    Some(match kind {
        b"maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        b"long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        b"medium" => &["CvcnoCvc", "CvcCvcno"],
        b"short" => &["Cvcn"],
        b"basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        b"pin" => &["nnnn"],
        _ => return None,
    })
}

fn password_characters(class: u8) -> &'static [u8] {
    match class {
        b'V' => b"AEIOU",
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'A' => b"AEIOUBCDFGHJKLMNPQRSTVWXYZ",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

pub(super) fn derive_password(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    const SEED: &[u8] = b"com.lyndir.masterpassword";
    let counter = u32::try_from(int(args, 0)).unwrap_or_default();
    let (kind, password, user, site) = (text(args, 1), text(args, 2), text(args, 3), text(args, 4));
    let Some(templates) = password_templates(&kind) else {
        return string(format!("cannot find password template {kind}"));
    };
    let length = |text: &[u8]| u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes();
    let salt = [SEED, &length(&user), &user[..]].concat();
    let failed = |error: String| FuncError::new(format!("failed to derive password: {error}"));
    let key = scrypt::derive(&password, &salt, SCRYPT_LOG_N, &mut |mixes| call.steps(mixes * MIX_STEPS))?;
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&key).map_err(|e| failed(e.to_string()))?;
    mac.update(&[SEED, &length(&site), &site[..], &counter.to_be_bytes()].concat());
    let seed = mac.finalize().into_bytes();
    let mut seed = seed.iter().map(|b| usize::from(*b));
    let choice = seed.next().unwrap_or(0) % templates.len();
    let template = templates.get(choice).copied().unwrap_or_default();
    let pick = |(class, number): (u8, usize)| {
        let characters = password_characters(class);
        characters.get(number % characters.len()).copied().unwrap_or(b'?')
    };
    string(template.bytes().zip(seed).map(pick).collect::<Vec<u8>>())
}

// The first 32 bytes of the password, filled up with zeros.
fn cipher(password: &[u8]) -> Aes256 {
    let mut key = [0; 32];
    for (slot, byte) in key.iter_mut().zip(password) {
        *slot = *byte;
    }
    Aes256::new(&key.into())
}

fn block(bytes: &[u8]) -> [u8; BLOCK] {
    bytes.try_into().unwrap_or_default()
}

pub(super) fn encrypt_aes(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let plain = text(args, 1);
    if plain.is_empty() {
        return string("");
    }
    let cipher = cipher(&text(args, 0));
    let padding = BLOCK - plain.len() % BLOCK;
    let mut out = Vec::with_capacity(BLOCK + plain.len() + padding);
    out.extend(bytes(call, BLOCK)?);
    let mut previous = block(&out);
    let (whole, rest) = plain.split_at_checked(plain.len() + padding - BLOCK).unwrap_or((&plain, &[]));
    let mut last = [u8::try_from(padding).unwrap_or(0); BLOCK];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    for chunk in whole.chunks(BLOCK).chain([&last[..]]) {
        let mut mixed = block(chunk);
        for (byte, before) in mixed.iter_mut().zip(previous) {
            *byte ^= before;
        }
        let mut encrypted: Block<Aes256> = mixed.into();
        cipher.encrypt_block(&mut encrypted);
        previous = encrypted.into();
        out.extend_from_slice(&previous);
    }
    string(base64(&out))
}

pub(super) fn decrypt_aes(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let crypt = text(args, 1);
    if crypt.is_empty() {
        return string("");
    }
    let crypt = base64_decode(&crypt).map_err(FuncError::new)?;
    let Some((start, body)) = crypt.split_at_checked(BLOCK) else {
        return Err(FuncError::new("runtime error: slice bounds out of range"));
    };
    if body.len() % BLOCK != 0 {
        return Err(FuncError::new("crypto/cipher: input not full blocks"));
    }
    let cipher = cipher(&text(args, 0));
    let mut previous = block(start);
    let mut out = Vec::with_capacity(body.len());
    for chunk in body.chunks(BLOCK) {
        let mut decrypted: Block<Aes256> = block(chunk).into();
        cipher.decrypt_block(&mut decrypted);
        let plain: [u8; BLOCK] = decrypted.into();
        out.extend(plain.iter().zip(previous).map(|(byte, before)| byte ^ before));
        previous = block(chunk);
    }
    let padding = out.last().map_or(0, |b| usize::from(*b));
    let length = out.len().checked_sub(padding);
    let length = length.ok_or_else(|| FuncError::new("runtime error: slice bounds out of range"))?;
    out.truncate(length);
    string(out)
}
