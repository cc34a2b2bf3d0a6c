//! `genCA`, `genSignedCert` and their kin: RSA keys and X.509 certificates out of the render's entropy.

use std::any::Any;
use std::convert::Infallible;
use std::net::IpAddr;

use convoy_gotemplate::{Call, FuncError, Kind, Object, Str, Value, sprint};
use crypto_primes::hazmat::{SetBits, SmallFactorsSieveFactory};
use crypto_primes::{Flavor, is_prime, sieve_and_find};
use rand_core::{TryCryptoRng, TryRng};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType, SerialNumber,
};
use rsa::pkcs1::{DecodeRsaPrivateKey, EncodeRsaPrivateKey};
use rsa::pkcs8::{EncodePrivateKey, LineEnding};
use rsa::{BoxedUint, RsaPrivateKey as PrivateKey};

use super::arguments::{Outcome, any, int, string, text};
use super::encoding::{base64, base64_decode};
use super::{Environment, context};

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

const KEY_BITS: usize = 2048;
const EXPONENT: u32 = 65_537;
// Finding a key costs as much as so many commands, roughly.
const KEY_STEPS: u64 = 200_000;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// What `genCA` and the others give: `.Cert` and `.Key`, both PEM.
pub(super) const CERTIFICATE: &str = "sprig.certificate";

struct Certificate {
    cert: Str,
    key: Str,
}

impl Object for Certificate {
    fn type_name(&self) -> &str {
        CERTIFICATE
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Cert" => Some(Value::String(self.cert.clone())),
            "Key" => Some(Value::String(self.key.clone())),
            _ => None,
        }
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![("Cert", Value::String(self.cert.clone())), ("Key", Value::String(self.key.clone()))]
    }
}

/// The render's entropy as the RSA library takes it.
struct Random<'a>(&'a mut Environment);

impl TryRng for Random<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.0.entropy.fill(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.0.entropy.fill(&mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.entropy.fill(bytes);
        Ok(())
    }
}

impl TryCryptoRng for Random<'_> {}

fn new_rsa(call: &mut Call<'_, '_>, bits: usize) -> Result<PrivateKey, FuncError> {
    call.steps(KEY_STEPS)?;
    let failed = |error: String| FuncError::new(format!("error generating rsa key: {error}"));
    let half = u32::try_from(bits / 2).unwrap_or(0);
    let [p, q] = [prime(call, half)?, prime(call, half)?];
    PrivateKey::from_p_q(p, q, BoxedUint::from(EXPONENT)).map_err(|error| failed(error.to_string()))
}

/// A random prime with its two highest bits set, so that the product of two has all bits.
fn prime(call: &mut Call<'_, '_>, bits: u32) -> Result<BoxedUint, FuncError> {
    let failed = |error: String| FuncError::new(format!("error generating rsa key: {error}"));
    let deadline = context(call)?.deadline();
    // A candidate takes milliseconds, and there may be hundreds.
    let is_stopped = || deadline.as_ref().is_some_and(|passed| passed());
    let candidates = SmallFactorsSieveFactory::new(Flavor::Any, bits, SetBits::TwoMsb)
        .map_err(|error| failed(error.to_string()))?;
    let mut random = Random(context(call)?);
    let found = sieve_and_find(&mut random, candidates, |_, candidate| {
        is_stopped() || is_prime(Flavor::Any, candidate)
    });
    call.steps(1 << 10)?;
    found.map_err(|error| failed(error.to_string()))?.ok_or_else(|| failed("there is no prime".to_owned()))
}

fn pem(kind: &str, der: &[u8]) -> String {
    let body = base64(der);
    let mut out = format!("-----BEGIN {kind}-----\n");
    for line in body.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str(&format!("-----END {kind}-----\n"));
    out
}

// The first PEM block: its type and content.
fn first_pem(text: &str) -> Option<(&str, Vec<u8>)> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (kind, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {kind}-----"))?;
    let body: String = body.split_whitespace().collect();
    base64_decode(body.as_bytes()).ok().map(|der| (kind, der))
}

/// A key, and how it is written.
struct Key {
    pair: KeyPair,
    pem: String,
}

fn rsa_key(key: &PrivateKey) -> Result<Key, FuncError> {
    let failed = |error: String| FuncError::new(format!("error pem-encoding key: {error}"));
    let der = key.to_pkcs1_der().map_err(|e| failed(e.to_string()))?;
    let pkcs8 = key.to_pkcs8_pem(LineEnding::LF).map_err(|e| failed(e.to_string()))?;
    let pair = KeyPair::from_pem_and_sign_algo(&pkcs8, &rcgen::PKCS_RSA_SHA256)
        .map_err(|e| failed(e.to_string()))?;
    Ok(Key { pair, pem: pem("RSA PRIVATE KEY", der.as_bytes()) })
}

// PKCS #8 around a SEC 1 key on P-256.
fn p256_pkcs8(sec1: &[u8]) -> Option<Vec<u8>> {
    const ALGORITHM: &[u8] = &[
        0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
        0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
    ];
    let length = u8::try_from(sec1.len()).ok().filter(|l| *l < 0x80)?;
    let total = ALGORITHM.len() + 2 + sec1.len();
    let header: Vec<u8> = match u8::try_from(total).ok()? {
        short @ 0..0x80 => vec![0x30, short],
        long => vec![0x30, 0x81, long],
    };
    Some([&header[..], ALGORITHM, &[0x04, length], sec1].concat())
}

fn parse_key(text: &str) -> Result<Key, String> {
    let (kind, der) = first_pem(text).ok_or("no PEM data in input")?;
    match kind {
        "RSA PRIVATE KEY" => {
            let key = PrivateKey::from_pkcs1_der(&der)
                .map_err(|e| format!("parsing RSA private key from PEM: {e}"))?;
            rsa_key(&key).map_err(|e| e.to_string())
        }
        "PRIVATE KEY" => {
            let pair =
                KeyPair::try_from(der.as_slice()).map_err(|e| format!("decoding PEM as PKCS#8: {e}"))?;
            Ok(Key { pair, pem: pem(kind, &der) })
        }
        "EC PRIVATE KEY" => {
            let pkcs8 = p256_pkcs8(&der).ok_or("parsing EC private key from PEM: only P-256 is supported")?;
            let pair = KeyPair::try_from(pkcs8.as_slice())
                .map_err(|e| format!("parsing EC private key from PEM: {e}"))?;
            Ok(Key { pair, pem: pem(kind, &der) })
        }
        _ if kind.ends_with(" PRIVATE KEY") => {
            Err(format!("invalid private key type {}", kind.trim_end_matches(" PRIVATE KEY")))
        }
        _ => Err(format!("no private key data in PEM block of type {kind}")),
    }
}

fn shown(value: &Value) -> String {
    const LONGEST: usize = 1 << 12;
    sprint(std::slice::from_ref(value), LONGEST)
        .map_or_else(|_| "?".into(), |t| String::from_utf8_lossy(&t).into_owned())
}

fn items(value: &Value) -> Vec<Value> {
    match value {
        Value::List(list) => list.to_vec(),
        _ => Vec::new(),
    }
}

fn params(
    call: &mut Call<'_, '_>,
    name: &str,
    ips: &Value,
    dns: &Value,
    days: i64,
) -> Result<CertificateParams, FuncError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let mut ip_names = Vec::new();
    for ip in items(ips) {
        let Value::String(ip) = &ip else {
            return Err(FuncError::new(format!("error parsing ip: {} is not a string", shown(&ip))));
        };
        let parsed: IpAddr =
            ip.to_text().parse().map_err(|_| FuncError::new(format!("error parsing ip: {ip}")))?;
        ip_names.push(SanType::IpAddress(parsed));
    }
    for host in items(dns) {
        let Value::String(host) = &host else {
            return Err(FuncError::new(format!(
                "error processing alternate dns name: {} is not a string",
                shown(&host)
            )));
        };
        let host = host.to_string().try_into().map_err(|_| {
            FuncError::new(format!(
                "error creating certificate: x509: {host:?} cannot be encoded as an IA5String"
            ))
        })?;
        params.subject_alt_names.push(SanType::DnsName(host));
    }
    params.subject_alt_names.extend(ip_names);
    let mut serial = [0; 16];
    let environment = context(call)?;
    environment.entropy.fill(&mut serial);
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    let now = environment.now.as_second();
    params.not_before = date(now);
    params.not_after = date(now.saturating_add(days.saturating_mul(DAY_SECONDS)));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.is_ca = IsCa::ExplicitNoCa;
    Ok(params)
}

fn date(seconds: i64) -> time::OffsetDateTime {
    // X.509 dates end with the year 9999.
    const LAST: i64 = 253_402_300_799;
    time::OffsetDateTime::from_unix_timestamp(seconds.clamp(0, LAST))
        .unwrap_or(time::OffsetDateTime::UNIX_EPOCH)
}

fn created(error: &rcgen::Error) -> FuncError {
    FuncError::new(format!("error creating certificate: {error}"))
}

fn done(cert: &rcgen::Certificate, key: &Key) -> Outcome {
    Ok(Value::object(Certificate {
        cert: pem("CERTIFICATE", cert.der()).into(),
        key: key.pem.as_str().into(),
    }))
}

fn given_key(args: &[Value], index: usize) -> Result<Key, FuncError> {
    parse_key(&text(args, index).to_text()).map_err(|e| FuncError::new(format!("parsing private key: {e}")))
}

fn authority(call: &mut Call<'_, '_>, args: &[Value], key: &Key) -> Outcome {
    let name = text(args, 0).to_string();
    let mut params = params(call, &name, &Value::Nil, &Value::Nil, int(args, 1))?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages.push(KeyUsagePurpose::KeyCertSign);
    done(&params.self_signed(&key.pair).map_err(|e| created(&e))?, key)
}

fn self_signed(call: &mut Call<'_, '_>, args: &[Value], key: &Key) -> Outcome {
    let name = text(args, 0).to_string();
    let params = params(call, &name, &any(args, 1), &any(args, 2), int(args, 3))?;
    done(&params.self_signed(&key.pair).map_err(|e| created(&e))?, key)
}

fn signed(call: &mut Call<'_, '_>, args: &[Value], key: &Key) -> Outcome {
    let Value::Object(object) = any(args, 4) else { return Err(super::arguments::nil_pointer()) };
    let ca = object.as_any().downcast_ref::<Certificate>().ok_or_else(super::arguments::nil_pointer)?;
    let ca_cert = ca.cert.to_text();
    if first_pem(&ca_cert).is_none() {
        return Err(FuncError::new("unable to decode certificate"));
    }
    let ca_key = parse_key(&ca.key.to_text())
        .map_err(|e| FuncError::new(format!("error parsing private key: {e}")))?;
    let issuer = Issuer::from_ca_cert_pem(&ca_cert, ca_key.pair)
        .map_err(|e| FuncError::new(format!("error parsing certificate: decodedSignerCert.Bytes: {e}")))?;
    let name = text(args, 0).to_string();
    let mut params = params(call, &name, &any(args, 1), &any(args, 2), int(args, 3))?;
    params.use_authority_key_identifier_extension = true;
    done(&params.signed_by(&key.pair, &issuer).map_err(|e| created(&e))?, key)
}

pub(super) fn gen_ca(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let key = rsa_key(&new_rsa(call, KEY_BITS)?)?;
    authority(call, args, &key)
}

pub(super) fn gen_ca_with_key(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    authority(call, args, &given_key(args, 2)?)
}

pub(super) fn gen_self_signed(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let key = rsa_key(&new_rsa(call, KEY_BITS)?)?;
    self_signed(call, args, &key)
}

pub(super) fn gen_self_signed_with_key(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    self_signed(call, args, &given_key(args, 4)?)
}

pub(super) fn gen_signed(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let key = rsa_key(&new_rsa(call, KEY_BITS)?)?;
    signed(call, args, &key)
}

pub(super) fn gen_signed_with_key(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    signed(call, args, &given_key(args, 5)?)
}

pub(super) fn build_custom(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let decoded = |index: usize, what: &str| {
        base64_decode(&text(args, index))
            .map_err(|_| FuncError::new(format!("unable to decode base64 {what}")))
    };
    let (cert, key) = (decoded(0, "certificate")?, decoded(1, "private key")?);
    if first_pem(&String::from_utf8_lossy(&cert)).is_none() {
        return Err(FuncError::new("unable to decode certificate"));
    }
    parse_key(&String::from_utf8_lossy(&key))
        .map_err(|e| FuncError::new(format!("error parsing private key: {e}")))?;
    Ok(Value::object(Certificate { cert: cert.into(), key: key.into() }))
}

pub(super) fn gen_private_key(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let kind = text(args, 0);
    match &kind[..] {
        b"" | b"rsa" => {
            call.steps(7 * KEY_STEPS)?;
            string(rsa_key(&new_rsa(call, 2 * KEY_BITS)?)?.pem)
        }
        b"ed25519" => {
            // PKCS #8 of RFC 8410 around the 32 random bytes that are the key.
            let head = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
            let seed = super::random::bytes(call, 32)?;
            string(pem("PRIVATE KEY", &[&head[..], &seed[..]].concat()))
        }
        b"ecdsa" | b"dsa" => Err(FuncError::new(format!(
            "keys of type {kind} cannot be made here; use rsa or ed25519, or give one as a value"
        ))),
        _ => string(format!("Unknown type {kind}")),
    }
}
