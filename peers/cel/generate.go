package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"
)

// bounded and unbounded are the schemas of the generated rules: the same fields, with limits and without.
const (
	bounded = `{"type": "object", "properties": {"spec": {"type": "object", "required": ["name"], "properties": {
 "name": {"type": "string", "maxLength": 63}, "text": {"type": "string", "maxLength": 1000}, "zone": {"type": "string", "enum": ["a", "bb", "ccc"]},
 "count": {"type": "integer"}, "most": {"type": "integer"}, "ratio": {"type": "number"}, "flag": {"type": "boolean"},
 "when": {"type": "string", "format": "date-time"}, "wait": {"type": "string", "format": "duration"}, "raw": {"type": "string", "format": "byte", "maxLength": 64},
 "port": {"x-kubernetes-int-or-string": true, "maxLength": 20},
 "words": {"type": "array", "maxItems": 20, "items": {"type": "string", "maxLength": 30}},
 "numbers": {"type": "array", "maxItems": 50, "items": {"type": "integer"}},
 "labels": {"type": "object", "maxProperties": 10, "additionalProperties": {"type": "string", "maxLength": 63}},
 "sizes": {"type": "object", "maxProperties": 8, "additionalProperties": {"type": "integer"}},
 "parts": {"type": "array", "maxItems": 12, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"], "items": {"type": "object", "required": ["key"], "properties": {
  "key": {"type": "string", "maxLength": 20}, "value": {"type": "string", "maxLength": 100}, "size": {"type": "integer"}, "tags": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 10}}}}},
 "inner": {"type": "object", "properties": {"namespace": {"type": "string", "maxLength": 63}, "foo-bar": {"type": "string", "maxLength": 10}, "deep": {"type": "object", "properties": {"x": {"type": "string", "maxLength": 8}, "n": {"type": "integer"}}}}},
 "twin": {"type": "object", "properties": {"x": {"type": "string", "maxLength": 8}, "n": {"type": "integer"}}}}}}}`
)

// objects are the values that the rules run on.
const objects = `[
 {"object": {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "full"}, "spec": {"name": "first", "text": "The quick brown fox jumps over the lazy dog, again and again.", "zone": "bb",
  "count": 7, "most": 12, "ratio": 0.75, "flag": true, "when": "2026-02-03T04:05:06Z", "wait": "90m", "raw": "aGVsbG8gd29ybGQ=", "port": "http",
  "words": ["alpha", "beta", "gamma", "delta"], "numbers": [3, 1, 4, 1, 5, 9, 2, 6], "labels": {"app": "web", "tier": "front"}, "sizes": {"one": 1, "two": 2, "three": 3},
  "parts": [{"key": "a", "value": "10.0.0.1", "size": 1, "tags": ["x", "y"]}, {"key": "b", "value": "https://example.org/p?q=1", "size": 2}, {"key": "c"}],
  "inner": {"namespace": "default", "foo-bar": "v1.2.3", "deep": {"x": "100Mi", "n": 4}}}},
  "old": {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "full"}, "spec": {"name": "first", "text": "The quick brown fox", "zone": "a", "count": 6, "most": 12, "ratio": 0.5, "flag": false,
  "when": "2025-02-03T04:05:06Z", "wait": "10s", "raw": "aGVsbG8=", "port": 80, "words": ["alpha", "beta"], "numbers": [3, 1, 4], "labels": {"app": "web"}, "sizes": {"one": 1},
  "parts": [{"key": "a", "value": "v", "size": 1, "tags": ["x"]}], "inner": {"namespace": "other", "foo-bar": "v1", "deep": {"x": "1", "n": 3}}}}},
 {"object": {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "empty", "generateName": "em"}, "spec": {"name": "", "port": 8080, "words": [], "parts": [], "labels": {}, "inner": {}}}}
]`

func generate(seed int64, count int) (*Corpus, error) {
	corpus := &Corpus{}
	unbounded := stripLimits(bounded)
	for _, schema := range []string{bounded, unbounded} {
		made := Schema{Schema: json.RawMessage(compact(schema))}
		if err := json.Unmarshal([]byte(objects), &made.Objects); err != nil {
			return nil, err
		}
		corpus.Schemas = append(corpus.Schemas, made)
	}
	judge, err := newJudge(corpus.Schemas)
	if err != nil {
		return nil, err
	}
	writer := &writer{random: rand.New(rand.NewSource(seed))}
	seen := map[string]bool{}
	for refused := 0; len(corpus.Cases) < count; {
		rule := writer.expr("bool", 2+writer.random.Intn(3))
		if seen[rule] || len(rule) > 400 {
			continue
		}
		seen[rule] = true
		answer := judge.answer(writer.random.Intn(2), rule)
		// Some rules that are refused are worth keeping, but most should run.
		if answer.Error != "" {
			if refused++; refused > count/20 {
				continue
			}
		}
		if crashed(answer) {
			continue
		}
		if again := judge.answer(answer.Schema, rule); !same(answer, again) {
			continue // The order of a map decides.
		}
		corpus.Cases = append(corpus.Cases, answer)
	}
	return corpus, nil
}

// crashed is whether Go itself failed: the error names a Go type, and says nothing about the rule.
func crashed(answer Case) bool {
	for _, run := range answer.Runs {
		if strings.Contains(run.Error, "internal error") {
			return true
		}
	}
	return false
}

func same(one, other Case) bool {
	first, err := marshal(one)
	second, fault := marshal(other)
	return err == nil && fault == nil && first == second
}

func compact(text string) string {
	return strings.Join(strings.Fields(text), " ")
}

func stripLimits(text string) string {
	var schema any
	if err := json.Unmarshal([]byte(text), &schema); err != nil {
		panic(err)
	}
	var walk func(value any)
	walk = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			for _, name := range []string{"maxLength", "maxItems", "maxProperties"} {
				if _, isLimit := value[name].(float64); isLimit {
					delete(value, name)
				}
			}
			for _, below := range value {
				walk(below)
			}
		case []any:
			for _, below := range value {
				walk(below)
			}
		}
	}
	walk(schema)
	made, err := marshal(schema)
	if err != nil {
		panic(err)
	}
	return made
}

// writer writes expressions of a wanted type.
type writer struct {
	random *rand.Rand
	scope  []variable
}

type variable struct{ name, kind string }

// leaves are expressions without parts. The kind of a list of texts is "[string]", and of a map to numbers "{int}".
var leaves = map[string][]string{
	"bool":      {"self.spec.flag", "true", "false", "has(self.spec.flag)", "has(self.spec.labels)", "has(self.spec.labels.app)", "has(self.spec.inner.namespace)", "has(self.spec.inner.deep)", "has(self.metadata.name)", "self.spec.?flag.orValue(false)", "self.spec.twin == self.spec.inner.deep", "self.spec.inner == oldSelf.spec.inner"},
	"int":       {"self.spec.count", "self.spec.most", "1", "42", "-3", "self.spec.inner.deep.n", "oldSelf.spec.count", "self.spec.?count.orValue(2)", "self.spec.numbers[0]", "self.spec.sizes['one']", "self.spec.sizes.two", "size(self.spec.words)", "self.spec.name.size()"},
	"uint":      {"1u", "uint(self.spec.count)", "7u"},
	"double":    {"self.spec.ratio", "0.5", "2.0", "double(self.spec.count)"},
	"string":    {"self.spec.name", "self.spec.text", "self.spec.zone", "'a'", "'quick'", "''", "'web-1'", "self.metadata.name", "self.kind", "self.spec.inner.namespace", "self.spec.inner.foo__dash__bar", "self.spec.labels['app']", "self.spec.labels.tier", "self.spec.words[1]", "self.spec.parts[0].value", "self.spec.?zone.orValue('a')", "oldSelf.spec.name", "self.spec.labels[?'app'].orValue('none')", "self.spec.?words[0].orValue('')", "string(self.spec.count)", "self.spec.inner.__namespace__"},
	"bytes":     {"self.spec.raw", "b'abc'", "bytes(self.spec.name)"},
	"duration":  {"self.spec.wait", "duration('1h')"},
	"timestamp": {"self.spec.when", "timestamp('2026-01-01T00:00:00Z')", "oldSelf.spec.when"},
	"dyn":       {"self.spec.port", "dyn(self.spec.count)", "dyn(self.spec.name)", "dyn([1, 'a'])"},
	"[string]":  {"self.spec.words", "['a', 'b']", "['quick', 'brown', 'fox']", "self.spec.parts[0].tags", "oldSelf.spec.words", "self.spec.?words.orValue([])", "self.spec.text.split(' ')", "self.spec.name.split('i', 1)", "self.spec.text.findAll('[a-z]+')"},
	"[int]":     {"self.spec.numbers", "[1, 2, 3]", "[self.spec.count, 2]", "lists.range(4)"},
	"{string}":  {"self.spec.labels", "{'a': 'b'}", "{'k': self.spec.name}"},
	"{int}":     {"self.spec.sizes", "{'one': 1, 'two': 2}"},
	"part":      {"self.spec.parts[0]", "self.spec.parts[1]"},
	"[part]":    {"self.spec.parts", "oldSelf.spec.parts"},
	"opt":       {"self.spec.?zone", "self.spec.labels[?'tier']", "self.spec.?words[?0]", "optional.of(self.spec.name)", "optional.none()", "self.spec.words.first()", "self.spec.words.last()", "self.spec.parts[?1].value", "self.?spec.inner.deep.x"},
}

// forms are expressions with parts: {kind} stands for one, and {kind/name=item} for one that sees a variable.
var forms = map[string][]string{
	"bool": {
		"{bool} && {bool}", "{bool} || {bool}", "!{bool}", "{bool} ? {bool} : {bool}", "{int} == {int}", "{int} != {int}", "{int} < {int}", "{int} >= {int}", "{string} == {string}", "{string} != {string}",
		"{string} < {string}", "{string}.contains({string})", "{string}.startsWith({string})", "{string}.endsWith({string})", "{string}.matches('^[a-z]+$')", "{string}.matches({string})", "{string} in {[string]}", "{string} in ['a', 'bb', 'web']",
		"{int} in {[int]}", "{int} in [1, 2, 7]", "{string} in {{string}}", "{bytes} == {bytes}", "{double} < {double}", "{duration} < {duration}", "{timestamp} > {timestamp}", "{uint} == {uint}",
		"{[string]}.all(x, {bool/x=string})", "{[string]}.exists(x, {bool/x=string})", "{[int]}.exists_one(n, {bool/n=int})", "{[part]}.all(p, {bool/p=part})", "{[part]}.exists(p, {bool/p=part})", "{{string}}.all(k, {bool/k=string})",
		"{[string]}.all(i, x, {bool/x=string/i=int})", "{[int]}.exists(i, n, {bool/i=int/n=int})", "{[part]}.existsOne(i, p, {bool/p=part/i=int})", "{{int}}.all(k, v, {bool/k=string/v=int})",
		"{[string]} == {[string]}", "{[int]} == {[int]}", "{{string}} == {{string}}", "{[string]}.isSorted()", "{[int]}.isSorted()", "sets.contains({[string]}, {[string]})", "sets.intersects({[int]}, {[int]})", "sets.equivalent({[string]}, {[string]})",
		"isURL({string})", "url('https://' + {string}).getHost() == {string}", "isIP({string})", "isCIDR({string})", "cidr('10.0.0.0/8').containsIP({string})", "cidr('10.0.0.0/8').containsIP(ip('10.1.2.3'))", "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", "ip('10.0.0.1').isLoopback() || {bool}", "ip.isCanonical('127.0.0.1')",
		"isQuantity({string})", "quantity('1Gi').isGreaterThan(quantity('100Mi')) && {bool}", "quantity({string}).isInteger()", "isSemver({string})", "semver('1.2.3').isLessThan(semver('1.10.0')) == {bool}",
		"format.dns1123Label().validate({string}).hasValue()", "!format.named('dns1123Subdomain').value().validate({string}).hasValue()", "{opt}.hasValue()", "type({dyn}) == int", "type({dyn}) == string ? {bool} : {bool}", "{dyn} == {dyn}", "{part} == {part}", "[{string}, {string}].exists(x, {bool/x=string})", "{opt} == {opt}",
		"{[string]}.exists(x, {[string]}.all(y, {bool/x=string/y=string}))", "has({part}.tags)", "has({part}.size)", "{bool} == {bool}", "('%s-%d'.format([{string}, {int}])) == {string}", "cidr('192.168.0.0/16').ip() == ip('192.168.0.0')",
	},
	"int": {
		"{int} + {int}", "{int} - {int}", "{int} * {int}", "{int} / {int}", "{int} % {int}", "-{int}", "size({string})", "{[string]}.size()", "size({[int]})", "size({{string}})", "{bool} ? {int} : {int}", "{[int]}.sum()", "{[int]}.max()", "{[int]}.min()",
		"{string}.indexOf({string})", "{string}.lastIndexOf({string})", "{[string]}.indexOf({string})", "{[int]}.lastIndexOf({int})", "int({string})", "int({double})", "{timestamp}.getFullYear()", "{timestamp}.getHours('+02:00')", "{duration}.getSeconds()", "{[int]}[{int}]", "{{int}}[{string}]",
		"cidr('10.0.0.0/8').prefixLength()", "ip('::1').family()", "semver('1.2.3').major()", "{part}.size", "{[string]}.filter(x, {bool/x=string}).size()", "{opt}.hasValue() ? {int} : {int}", "quantity('5').asInteger()", "{[int]}.map(n, n, {int/n=int})[0]", "{[int]}.reverse()[0]", "size({bytes})",
	},
	"uint":   {"{uint} + {uint}", "uint({int})"},
	"double": {"{double} + {double}", "{double} * {double}", "double({int})", "quantity('1500m').asApproximateFloat()", "{bool} ? {double} : {double}"},
	"string": {
		"{string} + {string}", "{bool} ? {string} : {string}", "{string}.lowerAscii()", "{string}.upperAscii()", "{string}.trim()", "{string}.replace({string}, {string})", "{string}.replace('a', {string}, 1)", "{string}.substring(1)", "{string}.substring(0, {int})", "{string}.charAt(0)", "{[string]}.join()", "{[string]}.join({string})", "{[string]}[{int}]", "{[string]}[0]",
		"{{string}}[{string}]", "{part}.value", "{part}.key", "{opt}.orValue({string})", "{opt}.or({opt}).orValue('')", "{opt}.optMap(o, {string/o=string}).orValue({string})", "{opt}.optFlatMap(o, {opt/o=string}).orValue('x')", "string({int})", "string({bytes})", "string({bool})", "url('https://u@h.org:80/p?a=b').getPort()", "'%s'.format([{string}])", "strings.quote({string})", "{[string]}.max()", "{string}.find('[0-9]+')", "[{string}, {string}][{int}]", "({bool} ? {part} : {part}).key", "dyn({string})", "string({timestamp})", "string({duration})",
	},
	"bytes":     {"bytes({string})", "{bytes} + {bytes}"},
	"duration":  {"{duration} + {duration}", "{timestamp} - {timestamp}"},
	"timestamp": {"{timestamp} + {duration}", "{timestamp} - {duration}"},
	"dyn":       {"{bool} ? dyn({int}) : dyn({string})", "dyn({[string]})", "[dyn({int}), dyn({string})][0]"},
	"[string]": {
		"{[string]} + {[string]}", "{[string]}.map(x, {string/x=string})", "{[string]}.filter(x, {bool/x=string})", "{[part]}.map(p, {string/p=part})", "{[part]}.filter(p, {bool/p=part}).map(p, {string/p=part})", "{[string]}.map(x, {bool/x=string}, {string/x=string})", "[{string}, {string}]", "{string}.split({string})", "{string}.split(',', 3)", "{[string]}.transformList(i, x, {string/x=string/i=int})", "{[string]}.transformList(i, x, {bool/x=string/i=int}, {string/x=string})", "{{string}}.transformList(k, v, {string/k=string/v=string}).sort()",
		"{[string]}.sort()", "{[string]}.sortBy(x, {int/x=string})", "{[part]}.sortBy(p, {string/p=part}).map(p, {string/p=part})", "{[string]}.distinct()", "{[string]}.reverse()", "{[string]}.slice(0, 1)", "[{[string]}, {[string]}].flatten()", "{bool} ? {[string]} : {[string]}", "{string}.findAll('[a-z]', 2)", "[?{opt}, {string}]", "optional.unwrap([{opt}, {opt}])", "{{string}}.map(k, {string/k=string}).sort()",
	},
	"[int]":    {"{[int]} + {[int]}", "{[int]}.map(n, {int/n=int})", "{[int]}.filter(n, {bool/n=int})", "[{int}, {int}]", "{[string]}.map(x, {int/x=string})", "{[int]}.sort()", "{[int]}.distinct()", "{[int]}.reverse()", "{[int]}.slice(0, {int})", "[[1], {[int]}].flatten(1)"},
	"{string}": {"{'k': {string}, 'l': {string}}", "{{string}}.transformMap(k, v, {string/k=string/v=string})", "{{string}}.transformMap(k, v, {bool/v=string}, {string/v=string})", "{?'k': {opt}}", "{[string]}.transformMapEntry(i, x, {string(i) + x: {string/x=string}})"},
	"{int}":    {"{'k': {int}}", "{{int}}.transformMap(k, v, {int/v=int})"},
	"part":     {"{bool} ? {part} : {part}", "{[part]}[{int}]"},
	"[part]":   {"{[part]}.filter(p, {bool/p=part})"},
	"opt":      {"optional.of({string})", "optional.ofNonZeroValue({string})", "{opt}.or({opt})", "{opt}.optMap(o, {string/o=string})", "{opt}.optFlatMap(o, {opt/o=string})", "{[string]}[?{int}]", "{{string}}[?{string}]", "{[string]}.first()", "{part}.?value", "{[part]}[?0].?value", "{bool} ? {opt} : {opt}"},
}

// expr is an expression of a kind, which nests at most this deep.
func (w *writer) expr(kind string, depth int) string {
	choices := leaves[kind]
	for _, own := range w.scope {
		switch {
		case own.kind == kind:
			choices = append([]string{own.name, own.name, own.name}, choices...)
		case own.kind == "part" && kind == "string":
			choices = append([]string{own.name + ".key", own.name + ".value", own.name + ".?value.orValue('')"}, choices...)
		case own.kind == "part" && kind == "int":
			choices = append([]string{own.name + ".size", own.name + ".?size.orValue(0)"}, choices...)
		case own.kind == "part" && kind == "bool":
			choices = append([]string{"has(" + own.name + ".size)", "has(" + own.name + ".tags)"}, choices...)
		}
	}
	if depth == 0 || len(forms[kind]) == 0 || (depth < 3 && w.random.Intn(4) == 0) {
		return choices[w.random.Intn(len(choices))]
	}
	form := forms[kind][w.random.Intn(len(forms[kind]))]
	return w.fill(form, depth-1)
}

// fill replaces the parts of a form.
func (w *writer) fill(form string, depth int) string {
	var text strings.Builder
	for at := 0; at < len(form); {
		part, size := partAt(form[at:])
		if size == 0 {
			text.WriteByte(form[at])
			at++
			continue
		}
		words := strings.Split(part, "/")
		known := len(w.scope)
		for _, word := range words[1:] {
			name, kind, _ := strings.Cut(word, "=")
			w.scope = append(w.scope, variable{name, kind})
		}
		made := w.expr(words[0], depth)
		w.scope = w.scope[:known]
		if strings.ContainsAny(made, " ?-") {
			made = fmt.Sprintf("(%s)", made)
		}
		text.WriteString(made)
		at += size
	}
	return text.String()
}

// partAt reads `{kind}` or `{kind/name=kind}` at the begin of a text. Braces of maps are none.
func partAt(text string) (string, int) {
	if text[0] != '{' {
		return "", 0
	}
	depth := 0
	for at, letter := range text {
		switch letter {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth == 0 {
			part := text[1:at]
			kind, _, _ := strings.Cut(part, "/")
			if _, isKind := leaves[kind]; isKind {
				return part, at + 1
			}
			return "", 0
		}
	}
	return "", 0
}
