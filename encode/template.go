// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// DefaultSubject and DefaultTopic are the templates of who names none.
const (
	DefaultSubject = "k8s.{cluster}.{group}.{resource}.{namespace}.{name}"
	DefaultTopic   = "kubernetes"
)

// TemplateKind says what a template renders.
type TemplateKind uint8

// The kinds of templates.
const (
	// Subject is a NATS subject. Group "core" is the core group, namespace "_" none; the dots of cluster and group
	// become "_"; in namespace and name the characters . * > % white space, control characters and a leading _ are
	// percent-encoded.
	Subject TemplateKind = iota + 1
	// Topic is a Kafka topic. Dots stay; what Kafka does not take becomes "_".
	Topic
)

// String returns the word for the kind that error messages use.
func (k TemplateKind) String() string {
	if k == Topic {
		return "topic"
	}
	return "subject"
}

// Placeholders returns what a template of this kind may contain in braces.
func (k TemplateKind) Placeholders() []string {
	all := []string{"pipeline", "cluster", "group", "version", "resource", "namespace", "name"}
	if k == Topic {
		return all[:5]
	}
	return all
}

// Template renders the subjects or topics of messages. It never changes.
type Template struct {
	kind  TemplateKind
	text  string
	parts []part
}

// part is a placeholder, or a literal.
type part struct{ literal, placeholder string }

// ParseTemplate parses a template. Its errors name the template, what is wrong with it, and after a semicolon what is
// valid.
func ParseTemplate(kind TemplateKind, s string) (*Template, error) {
	t := &Template{kind: kind, text: s}
	for rest := s; rest != ""; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			i = len(rest)
		}
		if i > 0 {
			t.parts = append(t.parts, part{literal: rest[:i]})
			rest = rest[i:]
			continue
		}
		name, after, closed := strings.Cut(rest[1:], "}")
		if rest[0] == '}' || !closed {
			return nil, t.errorf("a brace has no counterpart")
		}
		if !slices.Contains(kind.Placeholders(), name) {
			return nil, t.errorf("{%s} is not known here", name)
		}
		t.parts = append(t.parts, part{placeholder: name})
		rest = after
	}
	check := t.checkSubject
	if kind == Topic {
		check = t.checkTopic
	}
	if err := check(); err != nil {
		return nil, err
	}
	return t, nil
}

func defaultSubject() *Template {
	t, err := ParseTemplate(Subject, DefaultSubject)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return t
}

func (t *Template) errorf(format string, args ...any) error {
	form := "letters, digits, . _ - and"
	if t.kind == Subject {
		form = "words of printable ASCII, separated by dots, with"
	}
	wrong := fmt.Sprintf(format, args...)
	return fmt.Errorf("%s %q: %s; write %s {%s}", t.kind, t.text, wrong, form, strings.Join(t.kind.Placeholders(), "} {"))
}

// checkSubject applies the rules of NATS to what a template renders, with a letter for each placeholder.
func (t *Template) checkSubject() error {
	sample := t.sample()
	switch {
	case sample == "":
		return t.errorf("it must not be empty")
	case slices.Contains(strings.Split(sample, "."), ""):
		return t.errorf("a word between dots must not be empty")
	case strings.ContainsAny(sample, "*>"):
		return t.errorf("it must not contain the wildcards * and >")
	case strings.ContainsFunc(sample, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return t.errorf("it must consist of printable ASCII without spaces")
	case strings.HasPrefix(sample, "$") || sample == "_INBOX" || strings.HasPrefix(sample, "_INBOX."):
		return t.errorf("what begins with $ or _INBOX belongs to the NATS server")
	}
	return nil
}

// maxTopic is the length of the longest name that Kafka allows.
const maxTopic = 249

func (t *Template) checkTopic() error {
	sample := t.sample()
	switch {
	case sample == "":
		return t.errorf("it must not be empty")
	case sample == "." || sample == "..":
		return t.errorf("Kafka reserves this name")
	case strings.ContainsFunc(sample, func(r rune) bool { return !topicRune(r) }):
		return t.errorf("it must consist of letters, digits, dots, underscores and hyphens")
	case len(sample) > maxTopic:
		return t.errorf("it must not be longer than %d characters", maxTopic)
	}
	return nil
}

func (t *Template) sample() string {
	var b strings.Builder
	for _, p := range t.parts {
		if b.WriteString(p.literal); p.placeholder != "" {
			b.WriteByte('x')
		}
	}
	return b.String()
}

// String returns the template as it was given.
func (t *Template) String() string { return t.text }

// PerObject reports whether no two objects can have the same subject: group, resource, namespace and name each are in
// it, in tokens of their own, so that none can be taken for a part of another.
func (t *Template) PerObject() bool {
	if t.kind != Subject {
		return false
	}
	seen := map[string]bool{}
	varying := 0 // placeholders in the token in hand that differ between objects
	for _, p := range t.parts {
		if strings.Contains(p.literal, ".") {
			varying = 0
		}
		if p.placeholder == "" || p.placeholder == "pipeline" || p.placeholder == "cluster" {
			continue
		}
		seen[p.placeholder] = true
		if varying++; varying > 1 {
			return false
		}
	}
	return seen["group"] && seen["resource"] && seen["namespace"] && seen["name"]
}

// Literal returns the whole tokens, with their dots, that every subject begins with: "k8s." of the default. It is
// empty where a subject begins with a placeholder, and the whole subject where there is none.
func (t *Template) Literal() string {
	first := ""
	if len(t.parts) > 0 {
		first = t.parts[0].literal
	}
	if first == t.text {
		return first
	}
	return first[:strings.LastIndexByte(first, '.')+1]
}

// Wildcard returns the subject of a NATS stream that holds every message: Literal and ">". Where Literal is empty that
// is ">", which a stream cannot have beside others. A template without placeholders is its own wildcard.
func (t *Template) Wildcard() string {
	if l := t.Literal(); l != t.text {
		return l + ">"
	}
	return t.text
}

// Pattern returns a subject that matches each one that t can render: each token with a placeholder that is not in known
// is *. What a known one stands for is rendered as in subjects.
func (t *Template) Pattern(known map[string]string) string {
	tokens := strings.Split(t.with(known, func(string) string { return "*" }), ".")
	for i, token := range tokens {
		if strings.Contains(token, "*") {
			tokens[i] = "*"
		}
	}
	return strings.Join(tokens, ".")
}

// Address returns t with what is known rendered as in subjects and topics. The other placeholders stay, and are
// returned in their order, each once.
func (t *Template) Address(known map[string]string) (address string, open []string) {
	address = t.with(known, func(placeholder string) string {
		if !slices.Contains(open, placeholder) {
			open = append(open, placeholder)
		}
		return "{" + placeholder + "}"
	})
	return address, open
}

// with renders t with what is known, and with what open returns for each other placeholder.
func (t *Template) with(known map[string]string, open func(placeholder string) string) string {
	var b strings.Builder
	for _, p := range t.parts {
		b.WriteString(p.literal)
		if v, ok := known[p.placeholder]; ok {
			b.WriteString(t.kind.constant(p.placeholder, v))
		} else if p.placeholder != "" {
			b.WriteString(open(p.placeholder))
		}
	}
	return b.String()
}

// subject is a template in which everything that is constant for a stream is filled in.
type subject struct {
	// constant is the subject if it is the same for all objects, and parts are empty then.
	constant string
	parts    []part
}

func (t *Template) bind(pipeline, cluster string, r source.Resource) subject {
	value := map[string]string{
		"pipeline": pipeline, "cluster": cluster, "group": r.Group, "version": r.Version, "resource": r.Resource,
	}
	var s subject
	var literal strings.Builder
	for _, p := range t.parts {
		literal.WriteString(p.literal)
		if v, ok := value[p.placeholder]; ok {
			literal.WriteString(t.kind.constant(p.placeholder, v))
		} else if p.placeholder != "" {
			s.parts = append(s.parts, part{literal: literal.String(), placeholder: p.placeholder})
			literal.Reset()
		}
	}
	if s.parts == nil {
		s.constant = literal.String()
	} else if literal.Len() > 0 {
		s.parts = append(s.parts, part{literal: literal.String()})
	}
	return s
}

// constant renders a value that is the same for a whole stream.
func (k TemplateKind) constant(placeholder, v string) string {
	if placeholder == "group" {
		v = groupOr(v)
	}
	if k == Topic {
		return strings.Map(func(r rune) rune {
			if topicRune(r) {
				return r
			}
			return '_'
		}, v)
	}
	if placeholder == "cluster" || placeholder == "group" {
		v = strings.ReplaceAll(v, ".", "_")
	}
	if v == "" {
		return "_"
	}
	return string(appendToken(nil, v, placeholder != "pipeline"))
}

func topicRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// append appends an object's subject; nothing where it is constant.
func (s *subject) append(dst []byte, namespace, name string) []byte {
	for i := range s.parts {
		p := &s.parts[i]
		dst = append(dst, p.literal...)
		switch {
		case p.placeholder == "name":
			dst = appendToken(dst, name, false)
		case p.placeholder == "namespace" && namespace == "":
			dst = append(dst, '_')
		case p.placeholder == "namespace":
			dst = appendToken(dst, namespace, false)
		}
	}
	return dst
}

// marker returns the subject of markers. No object can have it: the underscore of its name is not encoded.
func (s *subject) marker(name string) string {
	dst := []byte(s.constant)
	for _, p := range s.parts {
		dst = append(dst, p.literal...)
		switch p.placeholder {
		case "name":
			dst = append(dst, name...)
		case "namespace":
			dst = append(dst, '_')
		}
	}
	return string(dst)
}

// appendToken appends v percent-encoded where it would end a token, be a wildcard, or be taken for something encoded.
func appendToken(dst []byte, v string, underscore bool) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(v) {
		c := v[i]
		if c <= ' ' || c == 0x7f || c == '.' || c == '*' || c == '>' || c == '%' || c == '_' && i == 0 && !underscore {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
			continue
		}
		dst = append(dst, c)
	}
	return dst
}
