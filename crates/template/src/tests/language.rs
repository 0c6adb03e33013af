//! The language.

use super::*;

#[test]
fn fields_are_named_as_the_family_names_them() {
    check(&[
        ("Hi {{${first_name}}}!", "Hi Ann!"),
        ("{{ ${first_name} }}|{{${ first_name }}}", "Ann|Ann"),
        ("{{${external_id}}}", "ann"),
        ("{{${service_id}}}", "019a9f3e-7c11-7d22-8e33-9f44a055b166"),
        ("{{${crm_id} | slice: 0, 8}}", "019a9f3e"),
        ("{{${email}}} {{${phone}}} {{${dob}}}", "ann@example.com +15550100 1990-05-17"),
        ("{{${gender}}}{{${country}}}{{${language}}}", "FNOen"),
        ("{{${time_zone}}} {{${home_city}}} {{${last_coordinates}[1]}}", "Europe/Oslo Oslo 59.9"),
        ("{{custom_attribute.${visits}}}", "12"),
        ("{{custom_attribute.${name with spaces}}}", "spaces"),
        ("{{custom_attribute.${a-b}}} {{custom_attribute.${a.b}}}", "hyphen dots"),
        ("{{custom_attribute.${it's \"q\"}}}", "quotes"),
        (
            "{{custom_attribute.${address}.city}} {{custom_attribute.${address}.${city}}}",
            "Bergen Bergen",
        ),
        ("{{custom_attribute['visits']}} {{custom_attribute.visits}}", "12 12"),
        ("{{event_properties.${price}}} {{event_properties.${products}[0].name}}", "9.99 Tea"),
        ("{{campaign.${name}}} {{campaign.name}} {{campaign.${api_id}}}", "Spring Spring "),
        ("{% for pair in campaign %}{{ pair | join: '=' }}{% endfor %}", "name=Spring"),
    ]);
}

#[test]
fn fields_can_be_named_in_tags() {
    check(&[
        ("{% if custom_attribute.${visits} > 3 %}often{% endif %}", "often"),
        ("{% if ${first_name} == 'Ann' and ${country} != \"SE\" %}yes{% endif %}", "yes"),
        ("{% for f in custom_attribute.${fruits} %}{{f}},{% endfor %}", "kiwi,Apple,plum,"),
        ("{% case ${language} %}{% when 'no' %}Hei{% when 'de', 'en' %}Hi{% endcase %}", "Hi"),
        ("{% assign n = event_properties.${price} | plus: 1 %}{{n}}", "10.99"),
        ("{% if {{custom_attribute.${visits}}} == 12 %}yes{% endif %}", "yes"),
        ("{% assign b = {{custom_attribute.${visits} | plus: 50}} %}{{b}}", "62"),
        ("{% if {{custom_attribute.${visits} | minus: 12}} == 0 %}yes{% endif %}", "yes"),
        ("{{ 1 | plus: {{custom_attribute.${visits} | times: {{ 2 | plus: 1 }}}} }}", "37"),
        ("{% assign n = {{${first_name}}} | upcase %}{{ n | append: {{ ${country} }} }}", "ANNNO"),
        ("{% unless custom_attribute.${is_vip} %}a{% else %}b{% endunless %}", "b"),
    ]);
}

#[test]
fn absent_values_render_as_empty_at_every_level() {
    check(&[
        ("[{{${last_name}}}]", "[]"),
        ("[{{custom_attribute.${nope}}}]", "[]"),
        ("[{{custom_attribute.${nope}.a.b[3].c}}]", "[]"),
        ("[{{custom_attribute.${nothing}}}]", "[]"),
        ("[{{custom_attribute.${visits}.a.size}}]", "[]"),
        ("[{{custom_attribute.${fruits}[7]}}{{custom_attribute.${fruits}[-7]}}]", "[]"),
        ("[{{ nowhere }}{{ nowhere.at.all }}{{ subscribed_state.${x} }}]", "[]"),
        ("[{{ nowhere | upcase | split: ',' | join: '-' | append: 'x' }}]", "[x]"),
        ("{{ ${last_name} | default: 'friend' }}", "friend"),
        ("{% if custom_attribute.${nope} > 3 %}a{% else %}b{% endif %}", "b"),
        ("{% if nowhere contains 'a' %}a{% else %}b{% endif %}", "b"),
        ("{% if custom_attribute.${nope} == nil %}nil{% endif %}", "nil"),
        ("{% for x in nowhere %}{{x}}{% else %}none{% endfor %}", "none"),
        ("{% for x in (1..nowhere) %}{{x}}{% else %}none{% endfor %}", "none"),
        ("[{{ forloop.index }}{{ nowhere[nowhere] }}{{ 7 | divided_by: nowhere }}]", "[]"),
        ("{{ forloop.parentloop.parentloop.index }}", ""),
    ]);
    let source = "[{{${first_name}}}{{custom_attribute.${a}.b}}{{event_properties.${a}}}]";
    assert_eq!(parse(source).unwrap().render(&Sample::default(), 0), Ok("[]".into()));
}

#[test]
fn values_are_printed() {
    check(&[
        (
            "{{ 'a' }}{{ \"b\" }}{{ 1 }}{{ -2 }}{{ 1.50 }}{{ true }}{{ false }}{{ nil }}",
            "ab1-21.5truefalse",
        ),
        ("{{ custom_attribute.${score} }} {{ custom_attribute.${is_vip} }}", "3.5 true"),
        ("{{ custom_attribute.${numbers} }}", "312"),
        ("{{ custom_attribute.${address} }}", r#"{"city":"Bergen","geo":{"lat":60.4}}"#),
        ("{{ (1..3) }} {{ empty }}{{ blank }}", "1..3 "),
        ("{{ custom_attribute.${fruits}.size }} {{ ${first_name}.size }}", "3 3"),
        (
            "{{ custom_attribute.${fruits}.first }} {{ custom_attribute.${fruits}.last }}",
            "kiwi plum",
        ),
        ("{{ custom_attribute.${fruits}[-1] }} {{ custom_attribute.size }}", "plum XL"),
        ("{% assign i = 1 %}{{ custom_attribute.${fruits}[i] }}", "Apple"),
        ("{% assign k = 'city' %}{{ custom_attribute.${address}[k] }}", "Bergen"),
        ("{{}}{{ }}{% echo 'e' | upcase %}", "E"),
        ("{{ empty_cart }}{{ nil_value }}{{ true_name }}{{ x-y }}", ""),
    ]);
}

#[test]
fn conditions_join_from_the_right() {
    let cases = [
        ("1 == 1.0", true),
        ("'1' == 1", false),
        ("2 > 1 and 1 > 2 or true", true),
        ("false and false or true", false),
        ("true or false and false", true),
        ("'abc' contains 'b'", true),
        ("custom_attribute.${fruits} contains 'kiwi'", true),
        ("custom_attribute.${fruits} contains 'kiw'", false),
        ("custom_attribute.${address} contains 'city'", true),
        ("custom_attribute.${empty} == empty", true),
        ("custom_attribute.${none} == empty", true),
        ("custom_attribute.${nope} == empty", false),
        ("custom_attribute.${nope} == blank", true),
        ("'  ' == blank", true),
        ("'  ' == empty", false),
        ("false == blank", true),
        ("nil == nil", true),
        ("nil == false", false),
        ("'a' < 'b'", true),
        ("'b' <> 'a'", true),
        ("'a' < 1", false),
        ("1 <= 1", true),
        ("1 >= 2", false),
        ("nil < 1", false),
        ("0", true),
        ("''", true),
        ("nil", false),
        ("false", false),
        ("custom_attribute.${numbers} == custom_attribute.${numbers}", true),
        ("custom_attribute.${pets}[0] == custom_attribute.${pets}[1]", false),
        ("custom_attribute.${pets}[0] == custom_attribute.${pets}.first", true),
        ("(1..3) == (1..3)", true),
        ("custom_attribute.${is_new}", false),
    ];
    for (condition, holds) in cases {
        let source = format!("{{% if {condition} %}}yes{{% else %}}no{{% endif %}}");
        assert_eq!(render(&source), if holds { "yes" } else { "no" }, "{condition}");
        let source = format!("{{% unless {condition} %}}no{{% else %}}yes{{% endunless %}}");
        assert_eq!(render(&source), if holds { "yes" } else { "no" }, "{condition}");
    }
}

#[test]
fn blocks_behave_as_in_liquid() {
    check(&[
        ("{% if false %}a{% elsif nil %}b{% elsif 1 %}c{% else %}d{% endif %}", "c"),
        ("{% case 3 %}ignored{% when 1 or 2 %}a{% else %}b{% endcase %}", "b"),
        ("{% capture x %}a{{ 1 }}{% endcapture %}{{ x }}{{ x }}", "a1a1"),
        ("{% capture 'x' %}b{% endcapture %}{{ x }}", "b"),
        ("{% raw %}{{ ${x} }} {% if %}{% endraw %}", "{{ ${x} }} {% if %}"),
        ("a{% comment %} {{ ( }} {% comment %}{% endcomment %} {% if %} {% endcomment %}b", "ab"),
        ("a{% # a comment %}b{%-# another -%} c", "abc"),
        ("{% cycle 'a', 'b' %}{% cycle 'a', 'b' %}{% cycle 'a', 'b' %}", "aba"),
        ("{% cycle 'g': 1, 2 %}{% cycle 'g': 1, 2 %}{% cycle 'h': 1, 2 %}", "121"),
        ("{% increment n %}{% increment n %}{{ n }}{% decrement n %}{% decrement m %}", "0121-1"),
        ("{% assign n = 7 %}{% increment n %}{{ n }}", "07"),
        ("  a  {{- 1 -}}  b  {%- if true -%}  c  {%- endif -%}  d", "  a1bcd"),
        (" {%- raw -%}  x  {%- endraw -%} ", "  x  "),
        ("{{ 'a' -}} \n {{- 'b' }}", "ab"),
    ]);
}

#[test]
fn loops_behave_as_in_liquid() {
    check(&[
        ("{% for i in (1..3) %}{{ i }}{% endfor %}{{ i }}", "123"),
        ("{% for i in (3..1) %}{{ i }}{% else %}none{% endfor %}", "none"),
        ("{% for i in (1..9) limit:2 offset:3 %}{{ i }}{% endfor %}", "45"),
        ("{% for i in (1..9) reversed limit: 3, offset: 1 %}{{ i }}{% endfor %}", "432"),
        (
            "{% for i in (1..6) limit:2 %}{{ i }}{% endfor %}-{% for i in (1..6) limit:2 offset:continue %}{{ i }}{% endfor %}",
            "12-34",
        ),
        (
            "{% for i in (1..9) %}{% if i == 3 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
            "124",
        ),
        (
            "{% for p in custom_attribute.${pets} %}{{ forloop.index }}/{{ forloop.length }} {{ p.name }}{% unless forloop.last %}, {% endunless %}{% endfor %}",
            "1/2 Rex, 2/2 Tweety",
        ),
        ("{% for x in custom_attribute.${address} %}{{ x[0] }};{% endfor %}", "city;geo;"),
        ("{% for c in ${first_name} %}{{ c }}.{% endfor %}", "Ann."),
        (
            "{% for a in (1..2) %}{% for b in (1..2) %}{{ forloop.parentloop.index }}{{ forloop.index0 }}{{ forloop.rindex }} {% endfor %}{% endfor %}",
            "102 111 202 211 ",
        ),
        (
            "{% for i in (1..1) %}{{ forloop.first }}{{ forloop.last }}{{ forloop.name }}{% endfor %}",
            "truetruei-(1..1)",
        ),
        ("{% assign i = 'o' %}{% for i in (1..2) %}{{ i }}{% endfor %}{{ i }}", "12o"),
        (
            "{% for i in (9223372036854775806..9223372036854775807) %}{{ i }} {% endfor %}",
            "9223372036854775806 9223372036854775807 ",
        ),
        (
            "{% for i in (-9223372036854775808..9223372036854775807) limit: 1 offset: 3 %}{{ i }}{% endfor %}",
            "-9223372036854775805",
        ),
        ("{% for i in (1..3) limit: -1 %}{{ i }}{% else %}none{% endfor %}", "none"),
    ]);
    assert_eq!(
        render(
            "{% tablerow i in (1..3) cols:2 %}{{ i }}{{ tablerowloop.col }}{{ tablerowloop.col_last }}{% endtablerow %}"
        ),
        "<tr class=\"row1\">\n<td class=\"col1\">11false</td><td class=\"col2\">22true</td></tr>\n\
         <tr class=\"row2\"><td class=\"col1\">31false</td></tr>\n"
    );
    // Without `cols`, all columns are in one row.
    for cols in ["", "cols:0", "cols:-1", "cols:nothing"] {
        let source = format!("{{% tablerow i in (1..2) {cols} %}}{{{{ i }}}}{{% endtablerow %}}");
        let row = "<td class=\"col1\">1</td><td class=\"col2\">2</td>";
        assert_eq!(render(&source), format!("<tr class=\"row1\">\n{row}</tr>\n"), "{cols}");
    }
}

#[test]
fn a_liquid_tag_has_a_tag_on_each_line() {
    check(&[
        ("{% liquid\n  assign a = 'x' | upcase\n\n  echo a\n%}b", "Xb"),
        ("{%- liquid echo 1 -%} 2", "12"),
        (
            "{% liquid\nfor i in (1..3)\n if i == 2\n  continue\n endif\n # a comment\n echo i\nendfor %}",
            "13",
        ),
        ("{% liquid\ncomment\necho 1\nendcomment\ncase 2\nwhen 2\necho 'two'\nendcase %}", "two"),
        ("{% liquid\ncapture a\necho 'c'\nendcapture\nliquid echo a\n%}", "c"),
        ("{% if true %}{% liquid\necho 1\n%}{% endif %}{% liquid %}", "1"),
    ]);
    assert_eq!(error("{% liquid\necho 1\nnope %}"), "line 3, column 1: unknown tag `nope`");
    assert_eq!(
        error("{% liquid\nif true\n%}{% endif %}"),
        "line 2, column 1: `if` is not closed by `endif`"
    );
    assert_eq!(
        error("{% liquid\nendif %}"),
        "line 2, column 1: `endif` does not match an open tag"
    );
}

#[test]
fn other_tags_behave_as_in_liquid() {
    check(&[
        (
            "{% for i in (1..4) %}{% ifchanged %}{{ i | divided_by: 2 }}{% endifchanged %}{% endfor %}",
            "012",
        ),
        ("a{% doc %} {{ broken {% enddoc %}b", "ab"),
        ("{% comment %}{% raw %}{% endcomment %}{% endraw %}{% endcomment %}a", "a"),
        ("{% # one\n # two %}a", "a"),
        ("{% case 1 %}{% when 1 %}a{% when 1, 1 %}b{% else %}c{% endcase %}", "abb"),
        ("{% cycle name: 'a', 'b' %}{% cycle name: 'a', 'b' %}", "ab"),
        ("{% if true %} {% assign x = 1 %} {% endif %}{{ x }}", "1"),
        ("{% for i in (1..3) %}  {% if i == 9 %} x {% endif %} {% endfor %}|", "         |"),
        ("{% for i in (1..3) %} {% endfor %}|", "|"),
        ("{% if true %}{% raw %} {% endraw %}{% endif %}|", " |"),
        ("{{ ['campaign'].name }}{% assign n = 'campaign' %}{{ [n]['name'] }}", "SpringSpring"),
        (
            "{% for i in (1..1) %}{% tablerow j in (1..1) %}{{ forloop.length }}{{ tablerowloop.col }}{% endtablerow %}{% endfor %}",
            "<tr class=\"row1\">\n<td class=\"col1\">11</td></tr>\n",
        ),
        ("{% for i in 5 %}{{ i }}{% else %}none{% endfor %}", "none"),
    ]);
    assert_eq!(
        error("{% # one\n two %}"),
        "line 1, column 3: each line of a comment must begin with `#`"
    );
    assert_eq!(
        error("{% doc %}{% doc %}{% enddoc %}"),
        "line 1, column 4: `doc` blocks cannot nest"
    );
}

#[test]
fn extras_go_with_the_message() {
    let extras = |source: &str| {
        let mut budget = RenderBudget::new(NOW);
        let rendered = parse(source).unwrap().render_within(&sample(), &mut budget);
        rendered.map(|text| (text, budget.into_extras().into_iter().collect::<Vec<_>>()))
    };
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let source = "a{% message_extras :key test :value 123 %}\
                  {% message_extras :key {{${country}}} :value ${first_name} | upcase %}b";
    let expected = vec![pair("NO", "ANN"), pair("test", "123")];
    assert_eq!(extras(source), Ok(("ab".into(), expected)));
    let long = "{% for i in (1..200) %}{% message_extras :key i :value 'a long one' %}{% endfor %}";
    assert_eq!(extras(long).unwrap().1, vec![pair("i", "a long one")]);
    let long =
        "{% for i in (1..200) %}{% message_extras :key {{ i }} :value 'a long one' %}{% endfor %}";
    let stop = extras(long).unwrap_err();
    assert_eq!(
        stop,
        Stop::Failed("the template adds more than 1000 bytes of message extras".into())
    );
    assert!(error("{% message_extras :key a %}").contains("expected `:`"));
}

#[test]
fn unknown_names_are_reported_with_their_position() {
    let cases = [
        (
            "Hi {{${frist_name}}}",
            "line 1, column 6: unknown name `${frist_name}`; did you mean `${first_name}`?",
        ),
        ("{{${zzz}}}", "line 1, column 3: unknown name `${zzz}`"),
        (
            "a\n{{ first_name }}",
            "line 2, column 4: unknown name `first_name`; did you mean `${first_name}`?",
        ),
        (
            "{{ campaign.${nmae} }}",
            "line 1, column 12: unknown name `campaign.${nmae}`; did you mean `campaign.${name}`?",
        ),
        ("{{ campaign.nope }}", "line 1, column 12: unknown name `campaign.${nope}`"),
        (
            "{{ custom_atribute.${x} }}",
            "line 1, column 4: unknown name `custom_atribute`; did you mean `custom_attribute`?",
        ),
        (
            "{% assign total = 1 %}{{ totl }}",
            "line 1, column 26: unknown name `totl`; did you mean `total`?",
        ),
        ("{{ 1 | divided_by: 0 }}", "line 1, column 20: `divided_by`: division by zero"),
        ("{{ 'a' | slice: 'b' }}", "line 1, column 17: expected a whole number"),
        (
            "{% for i in (1..2) limit: 'x' %}{% endfor %}",
            "line 1, column 20: expected a whole number",
        ),
        (
            "{% if '2' > 1 %}{% endif %}",
            "line 1, column 7: a string cannot be compared with a number",
        ),
        ("{% assign a? = 1 %}", "line 1, column 11: `a?`: a name cannot end with `?`"),
        // Only the first mistake is reported.
        ("{{ b }}{{${zzz}}}", "line 1, column 4: unknown name `b`"),
    ];
    for (source, expected) in cases {
        assert_eq!(mistake(source).as_deref(), Some(expected), "{source}");
        // The template renders anyway, without the missing names.
        assert!(try_render(source).is_ok(), "{source}");
    }
    for source in [
        "{{${first_name}}}{{ custom_attribute.${anything}.at.all }}{{ campaign.${name}.size }}",
        "{% for a in (1..2) %}{{ a }}{{ forloop.index }}{% endfor %}{{ a }}",
        "{% if false %}{% assign a = 1 %}{% endif %}{{ a }}{% capture b %}{% endcapture %}{{ b }}",
        "{% increment n %}{{ n }}{{ 'x' | default: 1, allow_false: true }}{{ ['a'] }}",
        "{{ a }}{% assign a = 1 %}",
        "{{ 1 | divided_by: 2 }}{{ 'a' | slice: '1' }}{% if '2' == 1 %}{% endif %}",
    ] {
        assert_eq!(mistake(source), None, "{source}");
    }
}

#[test]
fn a_template_can_abort_the_message() {
    let aborted = |source: &str| match try_render(source) {
        Err(Stop::Aborted(reason)) => reason,
        other => panic!("{source}: {other:?}"),
    };
    assert_eq!(aborted("a{% abort_message(\"why\") %}b"), "why");
    assert_eq!(aborted("{% abort_message('no name') %}"), "no name");
    assert_eq!(aborted("{% abort_message 'so' %}"), "so");
    assert_eq!(aborted("{% abort_message(${first_name} | append: ' is out') %}"), "Ann is out");
    assert_eq!(aborted("{% abort_message %}"), "the template aborted the message");
    assert_eq!(aborted("{%abort_message()%}"), "the template aborted the message");
    assert_eq!(
        aborted(
            "{% for i in (1..2) %}{% capture x %}{% abort_message(i) %}{% endcapture %}{% endfor %}"
        ),
        "1"
    );
    let long = format!("{{% abort_message('{}') %}}", "é".repeat(2_000));
    assert_eq!(aborted(&long).chars().count(), 501);
    check(&[("{% if ${first_name} == blank %}{% abort_message('x') %}{% endif %}go", "go")]);
}

#[test]
fn parse_errors_name_their_position() {
    let cases = [
        ("{{ 'a", "line 1, column 4: the string is not closed"),
        ("ab {{ x", "line 1, column 4: `{{` is not closed"),
        ("a\nbé{% if x", "line 2, column 3: `{%` is not closed"),
        ("{{${}}}", "line 1, column 3: `${}` has no name"),
        ("{{${a", "line 1, column 3: `${` is not closed"),
        ("a\n\n  {% if x %}", "line 3, column 3: `if` is not closed by `endif`"),
        ("{% for i in x %}{% endif %}", "line 1, column 20: `endif` does not match an open tag"),
        ("{% endif %}", "line 1, column 4: `endif` does not match an open tag"),
        ("{% else %}", "line 1, column 4: `else` does not match an open tag"),
        ("{% nope %}", "line 1, column 4: unknown tag `nope`"),
        ("{% 5 %}", "line 1, column 4: a tag must begin with its name"),
        ("{{ a | nope }}", "line 1, column 8: unknown filter `nope`"),
        ("{{ a | append }}", "line 1, column 8: `append` takes 1 arguments, not 0"),
        ("{{ a | append: 1, 2 }}", "line 1, column 19: too many arguments for `append`: at most 1"),
        ("{{ a | default: 1, nope: 2 }}", "line 1, column 20: `default` has no option `nope`"),
        ("{{ a b }}", "line 1, column 6: `b` is not expected here"),
        ("{{ a. }}", "line 1, column 7: expected a name, found the end"),
        ("{{ a[ }}", "line 1, column 7: a value is missing"),
        ("{{ | a }}", "line 1, column 4: expected a value, found `|`"),
        ("{{ a ~ }}", "line 1, column 6: `~` is not expected here"),
        ("{{ ${a} }", "line 1, column 9: `}` is not expected here"),
        ("{{ (1..) }}", "line 1, column 8: expected a value, found `)`"),
        ("{% if %}{% endif %}", "line 1, column 7: a value is missing"),
        (
            "{% if a | size > 1 %}{% endif %}",
            "line 1, column 9: a condition cannot have filters: `assign` the value first",
        ),
        ("{% assign a 5 %}", "line 1, column 13: expected `=`, found `5`"),
        ("{% assign forloop = 5 %}", "line 1, column 11: `forloop` cannot be assigned"),
        ("{% for a of b %}{% endfor %}", "line 1, column 10: expected `in`, found `of`"),
        (
            "{% for a in b cols: 2 %}{% endfor %}",
            "line 1, column 15: `cols` is only allowed in `tablerow`",
        ),
        (
            "{% include 'a' %}",
            "line 1, column 4: `include`: a template cannot include other templates",
        ),
        (
            "{% render 'a' %}",
            "line 1, column 4: `render`: a template cannot include other templates",
        ),
        ("{% raw %} x", "line 1, column 1: `raw` is not closed by `endraw`"),
        (
            "{% comment %}{% comment %}{% endcomment %}",
            "line 1, column 1: `comment` is not closed by `endcomment`",
        ),
        ("{% raw %}{% endraw x %}", "line 1, column 20: `endraw` takes no arguments"),
        ("{% if a %}{% endif x %}", "line 1, column 20: `x` is not expected here"),
        ("{% abort_message('a' %}", "line 1, column 22: expected `)`, found the end"),
        (
            &format!("{{% end{} %}}", "x".repeat(99)),
            &format!("line 1, column 4: `end{}…` does not match an open tag", "x".repeat(37)),
        ),
        ("{% # never closed", "line 1, column 1: `{%` is not closed"),
    ];
    for (source, expected) in cases {
        assert_eq!(error(source), expected, "{source}");
    }
}

/// Properties with all of their digits.
struct Digits(TreeObject);

impl Data for Digits {
    fn field(&self, _: &str) -> View<'_> {
        View::Nothing
    }

    fn object(&self, name: &str) -> View<'_> {
        if name == "event_properties" { View::TreeObject(&self.0) } else { View::Nothing }
    }
}

#[test]
fn numbers_are_compared_to_the_last_digit() {
    let digits = [
        ("18446744073709551617", "18446744073709551616"),
        ("-9223372036854775808", "-9223372036854775809"),
        ("9007199254740993", "9007199254740992.5"),
        ("123456789012345678.12345679", "123456789012345678.123456789"),
        ("1.10000000000000000001", "1.1"),
    ];
    for (larger, smaller) in digits {
        let json = format!(r#"{{"a":{larger},"b":{smaller},"list":[{larger},{smaller}]}}"#);
        let data = Digits(TreeObject::parse(&json).unwrap());
        let source = "{% assign p = event_properties %}{{p.a}} {{p.b}} \
             {% if p.a == p.b %}==,{% endif %}{% if p.a > p.b %}>,{% endif %}\
             {% if p.b < p.a %}<,{% endif %}{% if p.a <= p.b %}<=,{% endif %}\
             {% if p.a == LARGER %}is,{% endif %}{% if p.a == SMALLER %}is not,{% endif %}\
             {% if LARGER > SMALLER %}too,{% endif %}\
             {% assign sorted = p.list | sort %}{{sorted | join: ' '}}";
        let source = source.replace("LARGER", larger).replace("SMALLER", smaller);
        let rendered = parse(&source).unwrap().render(&data, NOW).unwrap();
        assert_eq!(rendered, format!("{larger} {smaller} >,<,is,too,{smaller} {larger}"));
    }
    check(&[
        ("{% if 1 == 1.0 and 1.10 == 1.1 and 100000000000000000000 > 1 %}yes{% endif %}", "yes"),
        ("{{ 1.10 }} {{ 99999999999999999999 }} {{ 0.5 }}", "1.1 99999999999999999999 0.5"),
    ]);
    let large = format!("{{{{ {} }}}}", "9".repeat(401));
    assert!(parse(&large).unwrap_err().to_string().contains("too large"));
}
