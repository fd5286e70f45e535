// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/encode/redact"
	"github.com/kube-eventbridge/kube-eventbridge/internal/filter"
)

// kind is what a value may be. A field that is zero limits nothing.
type kind struct {
	form form
	// what names it in "is not …", and write is the advice that follows.
	what, write string
	// secret: the value may be a secret that was written instead of its place, so messages do not repeat it.
	secret bool
	// empty: the empty text is valid. file: it names a file or a directory.
	empty, file bool
	choices     []string
	pattern     *regexp.Regexp
	// check returns what is wrong with a text, or errNot.
	check func(text string) error
	limits
	listing
	relations
	// keys are those of a mapping.
	keys []rule
}

// form is how YAML writes a value.
type form int

const (
	formText form = iota
	formNumber
	formSwitch
	formDuration
	formSize
	formResource
	formList
	formMapping
	formTexts
)

// limits are those of numbers, bytes or nanoseconds.
type limits struct {
	min, max int64
	zero     bool // is valid below min
}

// listing says what a list holds.
type listing struct {
	item               *kind
	nonEmpty, distinct bool
	same               func(text string) string // of an item: equal for items of which a list has one
}

// relations are those to other keys of the mapping.
type relations struct {
	aliases  []string // what other tools call the key
	needed   []string // one of them has to be there, too
	excluded []string // none of them may be there
	only     []string // the values of the key mechanism with which this key may be there
}

// errNot is for a text of which there is no more to say than what is valid.
var errNot = errors.New("")

func (k kind) also(aliases ...string) kind    { k.aliases = aliases; return k }
func (k kind) needs(keys ...string) kind      { k.needed = keys; return k }
func (k kind) without(keys ...string) kind    { k.excluded = keys; return k }
func (k kind) atLeast(n int64) kind           { k.min = n; return k }
func (k kind) between(least, most int64) kind { k.min, k.max = least, most; return k }
func (k kind) orZero() kind                   { k.zero = true; return k }
func (k kind) orEmpty() kind                  { k.empty = true; return k }
func (k kind) some() kind                     { k.nonEmpty = true; return k }
func (k kind) unique() kind                   { k.distinct = true; return k }
func (k kind) hidden() kind                   { k.secret = true; return k }
func (k kind) forPassword() kind              { k.only = mechanisms[:3]; return k }
func (k kind) forToken() kind                 { k.only = mechanisms[3:]; return k }

// sameIn lets a list have one of all items that form makes equal.
func (k kind) sameIn(form func(string) string) kind { k.same = form; return k }

func choice(values ...string) kind {
	return kind{what: "a choice", write: "valid: " + strings.Join(values, ", "), choices: values}
}

func list(item kind) kind {
	return kind{form: formList, what: "a list", listing: listing{item: &item}}
}

// whole is a file.
var whole = mapping(fileKeys)

func mapping(keys []rule) kind { return kind{form: formMapping, what: "a mapping", keys: keys} }

// matching is a text of a pattern.
func matching(pattern, what, write string) kind {
	return kind{what: what, write: write, pattern: regexp.MustCompile(pattern)}
}

// a is a text of which valid is true.
func a(valid func(string) bool, what, write string) kind {
	return checked(func(s string) error {
		if valid(s) {
			return nil
		}
		return errNot
	}, what, write)
}

// checked is a text of which check has no error.
func checked(check func(string) error, what, write string) kind {
	return kind{what: what, write: write, check: check}
}

const (
	ends         = " (at most 63, a letter or digit at both ends)"
	listener     = "an address to listen on"
	resourceForm = "write plural[.version][.group], such as pods, deployments.apps or deployments.v1.apps"
	labelForm    = "write one as kubectl -l takes it, such as app=web,tier!=cache"
	fieldForm    = "write one as kubectl --field-selector takes it, such as spec.nodeName=node-1"
	tokenURL     = "https://login.example.com/token"
)

var (
	mechanisms   = []string{"plain", "scram-sha-256", "scram-sha-512", "oauthbearer"}
	topicPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

	aText     = kind{what: "a text", empty: true}
	aNumber   = kind{form: formNumber, what: "a whole number", write: "write one such as 3"}
	aSwitch   = kind{form: formSwitch, what: "true or false", write: "write one of them; yes, no, on and off are texts"}
	aDuration = kind{form: formDuration, what: "a duration", write: "write one as Go does, such as 30s, 5m or 1h30m"}
	aSize     = kind{form: formSize, what: "a size", write: sizeForm}
	aResource = kind{form: formResource, what: "the name of a resource", write: resourceForm}
	texts     = kind{form: formTexts, what: "a mapping", write: "write {} or names with values"}

	aClusterName = matching(`^([A-Za-z0-9]([-.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?$`, "a name",
		"use letters, digits, - and ."+ends+", or leave it out")
	aPipelineName = matching(`^[A-Za-z0-9]([-_A-Za-z0-9]{0,61}[A-Za-z0-9])?$`, "a name",
		"use letters, digits, - and _"+ends)
	aNamespace = matching(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`, "a namespace",
		"use lower-case letters, digits and -"+ends+", or leave it out for all")
	aLeaseName = a(func(s string) bool { return len(validation.IsDNS1123Subdomain(s)) == 0 }, "the name of a Lease",
		"use lower-case letters, digits, - and .")

	aLabelSelector = checked(checkLabels, "a label selector", labelForm).orEmpty()
	aFieldSelector = a(func(s string) bool {
		_, err := fields.ParseSelector(s)
		return err == nil
	}, "a field selector", fieldForm).orEmpty()
	anExpression = checked(func(s string) error {
		_, err := filter.ParseExpression(s)
		return err
	}, "a text", "").orEmpty()
	aPath         = pathThat(func(jsonscan.Path) error { return nil })
	aRedactedPath = pathThat(redact.CheckPath)
	anAnnotation  = checked(checkAnnotation, "the name of an annotation", "write one such as example.com/team")

	aFile = kind{what: "a text", check: func(s string) error {
		if strings.HasPrefix(s, "~") {
			return fmt.Errorf("%q begins with ~, which is not replaced here; write the whole path, or a relative one", s)
		}
		return nil
	}, empty: true, file: true}
	aVariable = matching(`^[A-Za-z_][A-Za-z0-9_]*$`, "the name of an environment variable",
		"write a name such as BRIDGE_TOKEN, not the value").orEmpty().hidden()

	aListener       = a(listenable, listener, "write host:port, such as 127.0.0.1:8080 or :8080")
	aBrokerListener = a(listenable, listener, "write host:port, such as 127.0.0.1:4222 or :4222")

	aServer = a(isServer, "the URL of a NATS server",
		"write nats://host:4222, or tls, ws or wss for nats; secrets are in files, as tokenFile or credsFile").hidden()
	aStream = matching(`^[^\s.*>/\\\x00-\x1f\x7f]{1,255}$`, "the name of a stream",
		`use a word without spaces and . * > / \`)
	aSubject = checked(checkSubject, "a subject", "begin as in "+encode.DefaultSubject)
	// The name of a bucket's stream is longer, and a directory is named after that.
	aBucket = matching(`^[A-Za-z0-9_-]{1,200}$`, "the name of a bucket", "use letters, digits, - and _ (at most 200)")

	aBroker = a(isBroker, "the address of a broker", "write host:port, such as localhost:9092, and secrets in sasl").
		hidden().sameIn(strings.ToLower)
	aTopicTemplate = checked(checkTopics, "the name of a topic",
		"use letters, digits, . _ - and placeholders, as in "+encode.DefaultTopic)
	aTopic = a(func(s string) bool { return topicPattern.MatchString(s) && strings.Trim(s, ".") != "" },
		"the name of a topic", "use letters, digits, . _ and - (at most 249, not dots alone)")
	aTokenURL = a(isTokenURL, "the URL of a server that gives tokens", "write one with https or http, such as "+tokenURL+
		", and secrets as clientSecretFile or clientSecretEnv").orEmpty().hidden()
	aScope = matching(`^[!#-\[\]-~]+$`, "a scope", "write one word of printable ASCII, without quotes and backslashes")
)

// pathThat is a path into an object, with a further check.
func pathThat(check func(jsonscan.Path) error) kind {
	return checked(func(s string) error {
		p, err := jsonscan.ParsePath(s)
		if err != nil {
			return err
		}
		return check(p)
	}, "a path", "").sameIn(func(s string) string {
		p, err := jsonscan.ParsePath(s)
		if err != nil {
			return s
		}
		return p.Key()
	})
}

// checkLabels leaves out of an error of Kubernetes' what it says of a pattern.
func checkLabels(s string) error {
	_, err := labels.Parse(s)
	if err == nil {
		return nil
	}
	text, _, _ := strings.Cut(err.Error(), " (e.g. ")
	return fmt.Errorf("%q is not a label selector: %s; %s", s, strings.ReplaceAll(text, "<nil>: ", ""), labelForm)
}

func checkAnnotation(s string) error {
	if len(validation.IsQualifiedName(strings.ToLower(s))) > 0 {
		return errNot
	}
	return redact.CheckAnnotation(s)
}

func checkSubject(s string) error {
	t, err := encode.ParseTemplate(encode.Subject, s)
	if err == nil && t.Literal() == "" {
		err = fmt.Errorf("%q has no whole word before its first placeholder, and the stream is created for everything below "+
			"those words; begin as in %s", s, encode.DefaultSubject)
	}
	return err
}

func checkTopics(s string) error {
	_, err := encode.ParseTemplate(encode.Topic, s)
	if err == nil && strings.Trim(s, ".") == "" {
		err = errNot
	}
	return err
}
