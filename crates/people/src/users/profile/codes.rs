//! Codes of countries and languages.

/// ISO 3166-1 alpha-2, the codes that are officially assigned, ascending.
const COUNTRIES: &str = "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ \
     BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM \
     DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS \
     GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN \
     KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ \
     MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM \
     PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV \
     SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI \
     VN VU WF WS YE YT ZA ZM ZW";

/// ISO 639-1, ascending.
const LANGUAGES: &str = "aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy \
     da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht \
     hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky \
     la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny \
     oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss \
     st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo \
     za zh zu";

/// Every country code.
pub fn countries() -> impl Iterator<Item = &'static str> {
    COUNTRIES.split(' ')
}

/// Every language code.
pub fn languages() -> impl Iterator<Item = &'static str> {
    LANGUAGES.split(' ')
}

pub(super) fn is_country(text: &str) -> bool {
    has(COUNTRIES, text)
}

pub(super) fn is_language(text: &str) -> bool {
    has(LANGUAGES, text)
}

/// Whether an ascending list of two-letter codes, separated by spaces, contains a code.
fn has(codes: &str, text: &str) -> bool {
    let text = text.as_bytes();
    // Only the last code has no space after it.
    let (codes, last) = codes.as_bytes().as_chunks::<3>();
    last == text || codes.binary_search_by(|code| code[..2].cmp(text)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_whole() {
        for (list, count) in [(COUNTRIES, 249), (LANGUAGES, 183)] {
            let codes: Vec<&str> = list.split(' ').collect();
            assert_eq!(codes.len(), count);
            assert!(codes.is_sorted() && codes.iter().all(|code| has(list, code)));
            assert!(codes.iter().all(|code| code.len() == 2));
        }
    }

    #[test]
    fn unknown_codes_are_rejected() {
        for text in ["", "Z", "ZZ", "XK", "UK", "us", "U ", "USA", "D E"] {
            assert!(!is_country(text), "{text}");
        }
        for text in ["zz", "EN", "iw", "e ", "eng", ""] {
            assert!(!is_language(text), "{text}");
        }
    }
}
