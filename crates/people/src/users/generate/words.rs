//! The words of generated users.

/// A place, with its names and phrases.
pub struct Place {
    pub country: &'static str,
    pub language: &'static str,
    pub time_zone: &'static str,
    pub city: &'static str,
    pub longitude: f64,
    pub latitude: f64,
    /// The country's prefix, and how many digits follow it.
    pub dial: &'static str,
    pub digits: u32,
    /// Given names with their gender.
    pub given: &'static [(&'static str, &'static str)],
    pub family: &'static [&'static str],
    pub phrases: &'static [&'static str],
}

macro_rules! place {
    ($country:literal $language:literal $time_zone:literal $city:literal ($longitude:literal, $latitude:literal)
     $dial:literal $digits:literal [$($given:literal $gender:ident),+] [$($family:literal),+] [$($phrase:literal),+]) => {
        Place {
            country: $country,
            language: $language,
            time_zone: $time_zone,
            city: $city,
            longitude: $longitude,
            latitude: $latitude,
            dial: $dial,
            digits: $digits,
            given: &[$(($given, stringify!($gender))),+],
            family: &[$($family),+],
            phrases: &[$($phrase),+],
        }
    };
}

pub const PLACES: &[Place] = &[
    place!("US" "en" "America/New_York" "New York" (-73.9857, 40.7484) "+1" 10
        ["Olivia" F, "Liam" M, "Emma" F, "Noah" M, "Ava" F, "Jordan" O, "Riley" N, "Ethan" M]
        ["Smith", "Johnson", "Williams", "O'Brien", "Garcia", "Lee"]
        ["Free shipping please \u{1F4E6}", "said \"call me after 5\"", "rock & roll"]),
    place!("US" "es" "America/Los_Angeles" "Los Ángeles" (-118.2437, 34.0522) "+1" 10
        ["Sofía" F, "Mateo" M, "Valentina" F, "Santiago" M, "Ximena" F]
        ["Hernández", "Muñoz", "Núñez", "Peña", "Rodríguez"]
        ["¿Cuándo llega?", "café con leche", "mañana por la mañana"]),
    place!("GB" "en" "Europe/London" "London" (-0.1276, 51.5072) "+44" 10
        ["Amelia" F, "George" M, "Isla" F, "Harry" M, "Siân" F]
        ["Taylor", "Davies", "Wilson", "Hughes-Jones", "Patel"]
        ["a nice cup of tea", "leave at no. 12\\13", "mind the gap"]),
    place!("DE" "de" "Europe/Berlin" "Köln" (6.9603, 50.9375) "+49" 11
        ["Jürgen" M, "Käthe" F, "Lukas" M, "Anneliese" F, "Sören" M]
        ["Müller", "Weiß", "Schäfer", "Groß", "Öztürk"]
        ["Lieferung an die Haustür", "Größe 42", "Spätzle mit Soße"]),
    place!("FR" "fr" "Europe/Paris" "Paris" (2.3522, 48.8566) "+33" 9
        ["Zoé" F, "Jérôme" M, "Chloé" F, "François" M, "Maëlle" F]
        ["Lefèvre", "Garçon", "D'Angelo", "Noël", "Bœuf"]
        ["crème brûlée", "à bientôt", "l'été à la plage"]),
    place!("PL" "pl" "Europe/Warsaw" "Łódź" (19.456, 51.7592) "+48" 9
        ["Małgorzata" F, "Łukasz" M, "Świętosława" F, "Błażej" M]
        ["Wójcik", "Dąbrowska", "Żółć", "Gęś"]
        ["zażółć gęślą jaźń", "dzień dobry"]),
    place!("TR" "tr" "Europe/Istanbul" "İstanbul" (28.9784, 41.0082) "+90" 10
        ["Ayşe" F, "Çağrı" M, "Işıl" F, "Oğuz" M]
        ["Yılmaz", "Şahin", "Öztürk", "Güneş"]
        ["çay ve simit", "ılık su"]),
    place!("RU" "ru" "Europe/Moscow" "Москва" (37.6173, 55.7558) "+7" 10
        ["Анна" F, "Дмитрий" M, "Екатерина" F, "Алексей" M, "Фёдор" M]
        ["Иванова", "Смирнов", "Кузнецова", "Ёлкин"]
        ["доставка до двери", "чёрный чай"]),
    place!("UA" "uk" "Europe/Kyiv" "Київ" (30.5234, 50.4501) "+380" 9
        ["Олена" F, "Їжак" M, "Ґалаґан" M, "Соломія" F]
        ["Шевченко", "Ковальчук", "Бойко"]
        ["борщ і пампушки", "смачного"]),
    place!("GR" "el" "Europe/Athens" "Αθήνα" (23.7275, 37.9838) "+30" 10
        ["Ελένη" F, "Γιώργος" M, "Μαρία" F, "Νίκος" M]
        ["Παπαδόπουλος", "Οικονόμου", "Βλάχου"]
        ["καλημέρα", "ελιές και τυρί"]),
    place!("SA" "ar" "Asia/Riyadh" "الرياض" (46.6753, 24.7136) "+966" 9
        ["فاطمة" F, "محمد" M, "عائشة" F, "خالد" M]
        ["الأحمد", "القحطاني", "الشمري"]
        ["قهوة عربية", "شكرًا جزيلًا"]),
    place!("IL" "he" "Asia/Jerusalem" "תל אביב" (34.7818, 32.0853) "+972" 9
        ["נועה" F, "יוסף" M, "תמר" F, "דוד" M]
        ["כהן", "לוי", "מזרחי"]
        ["בוקר טוב", "חומוס ופיתה"]),
    place!("IR" "fa" "Asia/Tehran" "تهران" (51.389, 35.6892) "+98" 10
        ["زهرا" F, "علی" M, "پریسا" F, "کاوه" M]
        ["محمدی", "حسینی", "گلستانی"]
        ["چای با قند", "می\u{200c}خواهم"]),
    place!("IN" "hi" "Asia/Kolkata" "मुंबई" (72.8777, 19.076) "+91" 10
        ["आरव" M, "दीया" F, "विवान" M, "अनन्या" F]
        ["शर्मा", "सिंह", "त्रिपाठी"]
        ["मसाला चाय", "नमस्ते"]),
    place!("BD" "bn" "Asia/Dhaka" "ঢাকা" (90.4125, 23.8103) "+880" 10
        ["রহিম" M, "সুমাইয়া" F, "তানভীর" M]
        ["হোসেন", "আক্তার", "চৌধুরী"]
        ["ইলিশ মাছ", "ধন্যবাদ"]),
    place!("LK" "ta" "Asia/Colombo" "யாழ்ப்பாணம்" (80.0255, 9.6615) "+94" 9
        ["கமலா" F, "முருகன்" M, "செல்வி" F]
        ["சுப்பிரமணியம்", "பாலசிங்கம்"]
        ["வணக்கம்", "இட்லி சாம்பார்"]),
    place!("TH" "th" "Asia/Bangkok" "กรุงเทพฯ" (100.5018, 13.7563) "+66" 9
        ["สมชาย" M, "สุดา" F, "กิตติ" M]
        ["ศรีสุข", "ทองดี", "วงศ์สวัสดิ์"]
        ["ผัดไทยไม่เผ็ด", "ขอบคุณครับ"]),
    place!("CN" "zh" "Asia/Shanghai" "上海" (121.4737, 31.2304) "+86" 11
        ["伟" M, "芳" F, "秀英" F, "志强" M, "𠮷" M]
        ["王", "李", "欧阳", "张"]
        ["请放在门口", "北京烤鸭"]),
    place!("TW" "zh" "Asia/Taipei" "臺北" (121.5654, 25.033) "+886" 9
        ["怡君" F, "家豪" M, "淑芬" F]
        ["陳", "林", "黃"]
        ["珍珠奶茶", "謝謝光臨"]),
    place!("JP" "ja" "Asia/Tokyo" "東京" (139.6917, 35.6895) "+81" 10
        ["陽菜" F, "翔太" M, "さくら" F, "ケンジ" M]
        ["佐藤", "鈴木", "髙橋", "渡邉"]
        ["玄関前に置いてください", "抹茶ラテ"]),
    place!("KR" "ko" "Asia/Seoul" "서울" (126.978, 37.5665) "+82" 10
        ["서연" F, "민준" M, "지우" F, "도윤" M]
        ["김", "이", "박", "최"]
        ["문 앞에 놓아 주세요", "떡볶이"]),
    place!("GE" "ka" "Asia/Tbilisi" "თბილისი" (44.8271, 41.7151) "+995" 9
        ["ნინო" F, "გიორგი" M, "მარიამ" F]
        ["ბერიძე", "კაპანაძე"]
        ["ხაჭაპური", "გამარჯობა"]),
    place!("AM" "hy" "Asia/Yerevan" "Երևան" (44.5152, 40.1872) "+374" 8
        ["Անահիտ" F, "Արամ" M]
        ["Պետրոսյան", "Սարգսյան"]
        ["բարև ձեզ"]),
    place!("ET" "am" "Africa/Addis_Ababa" "አዲስ አበባ" (38.7578, 8.9806) "+251" 9
        ["ሰላም" F, "አበበ" M, "ትዕግስት" F]
        ["ተስፋዬ", "ገብረ"]
        ["ቡና ጠጡ"]),
    place!("BR" "pt" "America/Sao_Paulo" "São Paulo" (-46.6333, -23.5505) "+55" 11
        ["João" M, "Júlia" F, "Antônio" M, "Inês" F]
        ["Conceição", "Gonçalves", "Araújo", "Simões"]
        ["pão de queijo", "não incomodar"]),
    place!("VN" "vi" "Asia/Ho_Chi_Minh" "Thành phố Hồ Chí Minh" (106.6297, 10.8231) "+84" 9
        ["Nguyệt" F, "Đức" M, "Thảo" F]
        ["Nguyễn", "Trần", "Phạm"]
        ["phở bò tái", "cảm ơn bạn"]),
    place!("NG" "yo" "Africa/Lagos" "Lagos" (3.3792, 6.5244) "+234" 10
        ["Ṣọlá" F, "Olúwaṣeun" M, "Adébáyọ̀" M]
        ["Adéyẹmí", "Ọládípọ̀"]
        ["ẹ káàárọ̀"]),
];

/// Possible letters before the number in an email.
pub const HANDLES: &[&str] = &[
    "ann.lee",
    "mike",
    "the.real.zoe",
    "shop+news",
    "k_ito",
    "a",
    "contact",
    "li-wei",
    "o.brien",
    "jo.smith",
    "maria.garcia",
    "x",
];

pub const DOMAINS: &[&str] = &[
    "mail.example",
    "post.example",
    "acme.example",
    "inbox.example.org",
    "xn--mnchen-3ya.example",
];

/// Products and their prices in hundredths.
pub const PRODUCTS: &[(&str, i64)] = &[
    ("Running shoes", 8_999),
    ("T-shirt", 1_950),
    ("Gift card", 2_500),
    ("Espresso beans 1 kg", 2_399),
    ("Yoga mat", 3_490),
    ("Süßwaren-Mix", 499),
    ("抹茶セット", 3_200),
    ("Книга", 1_250),
    ("كتاب الطبخ", 1_875),
    ("Order", 6_417),
    ("Subscription (monthly)", 999),
    ("Sample", 0),
    ("Desk lamp \"Luna\"", 4_599),
    ("Headphones", 12_900),
    ("Phone case", 1_499),
    ("Ticket", 3_750),
    ("Extra legroom \u{1F9B5}", 2_900),
    ("Delivery", 390),
];

pub const EVENTS: &[&str] = &[
    "session_start",
    "viewed_product",
    "added_to_cart",
    "searched",
    "shared",
    "rated",
    "opened_notification",
    "completed_onboarding",
    "Wunschliste geändert",
    "ログイン",
    "level up \u{1F3AE}",
    "watched video",
    "filter_changed",
    "support_contacted",
    "coupon_used",
    "profile_updated",
];

pub const CAMPAIGNS: &[&str] =
    &["Spring launch", "Retargeting 2", "Été 2024", "新春キャンペーン", "app_install_v7"];
pub const SOURCES: &[&str] = &["Facebook Ads", "Google Ads", "Organic", "Influencer", "Newsletter"];

/// App name and platform.
pub const APPS: &[(&str, &str)] =
    &[("Acme for iOS", "iOS"), ("Acme", "Android"), ("Acme Web", "web"), ("Acme TV", "Roku")];

pub const IOS_DEVICES: &[(&str, &str)] = &[
    ("iPhone 15 Pro", "iOS 17.4.1"),
    ("iPhone 12", "iOS 16.7"),
    ("iPhone SE", "iOS 15.8.2"),
    ("iPad Air", "iOS 17.2"),
];
pub const ANDROID_DEVICES: &[(&str, &str)] = &[
    ("Pixel 8", "Android 14"),
    ("SM-S918B", "Android 13"),
    ("Redmi Note 12", "Android 12"),
    ("moto g(60)", "11"),
];
pub const CARRIERS: &[&str] =
    &["Verizon", "Telekom.de", "Orange F", "中国移动", "Vodafone", "NTT DOCOMO"];

pub const ALIAS_LABELS: &[&str] = &["crm", "loyalty_card", "amplitude_id", "会員番号"];
pub const COLORS: &[&str] = &["red", "green", "blue", "púrpura", "黒", "كحلي", "бежевый"];
pub const TIERS: &[&str] = &["bronze", "silver", "gold", "platinum"];
