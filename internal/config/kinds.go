// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/encode/redact"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/rules"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
	"github.com/kube-eventbridge/kube-eventbridge/internal/filter"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
)

type (
	// Problem is one thing that is wrong with a file.
	Problem = rules.Problem
	// Problems is an error with all of them.
	Problems = rules.Problems
)

// Short names for the table.
var choice, list, textsOf = rules.Choice, rules.List, rules.TextsOf

const required, optional = rules.Required, rules.Optional

// ParseDuration reads a duration as the file has it: as Go writes it, also with whole days and weeks.
func ParseDuration(text string) (time.Duration, error) { return rules.ParseDuration(text) }

// whole is the kind of a file.
var whole = mapping(fileKeys).WithEither("pipelines", "replicas")

func mapping(keys []rule) rules.Kind {
	all := make([]rules.Rule, len(keys))
	for i, k := range keys {
		all[i] = rules.Rule(k)
	}
	return rules.Mapping(all)
}

func forPassword(k rules.Kind) rules.Kind { return k.OnlyWith("mechanism", mechanisms[:3]...) }
func forToken(k rules.Kind) rules.Kind    { return k.OnlyWith("mechanism", mechanisms[3:]...) }

const (
	ends      = " (at most 63, a letter or digit at both ends)"
	dnsLabel  = `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`
	listener  = "an address to listen on"
	labelForm = "write one as kubectl -l takes it, such as app=web,tier!=cache"
	fieldForm = "write one as kubectl --field-selector takes it, such as spec.nodeName=node-1"
	tokenURL  = "https://login.example.com/token"
)

var (
	topicPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)
	mechanisms   = []string{"plain", "scram-sha-256", "scram-sha-512", "oauthbearer"}

	aText, aNumber, aSwitch, aDuration, texts = rules.Text, rules.Number, rules.Switch, rules.Duration, rules.Texts

	aSize  = rules.Kind{Form: rules.SizeForm, What: "a size", Write: value.SizeForm}
	aLimit = rules.Kind{
		Form: rules.ShareForm, What: "a limit", Write: "write a part such as 20%, or a number of objects such as 50",
	}
	aResource = rules.Kind{
		Form: rules.OtherForm, What: "the name of a resource", Write: value.ResourceForm,
		Check: func(s string) error { return new(value.ResourceName).UnmarshalText([]byte(s)) },
	}

	aClusterName = rules.Matching(`^([A-Za-z0-9]([-.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?$`, "a name",
		"use letters, digits, - and ."+ends+", or leave it out")
	aPipelineName = rules.Matching(`^[A-Za-z0-9]([-_A-Za-z0-9]{0,61}[A-Za-z0-9])?$`, "a name",
		"use letters, digits, - and _"+ends)
	aNamespace = rules.Matching(dnsLabel, "a namespace",
		"use lower-case letters, digits and -"+ends+", or leave it out for all")
	aLeaseName = rules.Valid(func(s string) bool { return len(validation.IsDNS1123Subdomain(s)) == 0 },
		"the name of a Lease", "use lower-case letters, digits, - and .")

	aSourceName = rules.Matching(`^[A-Za-z0-9]([-.A-Za-z0-9]{0,61}[A-Za-z0-9])?$`, "a name",
		"use letters, digits, - and ."+ends)
	aReplicaName = rules.Matching(dnsLabel, "a name", "use lower-case letters, digits and -"+ends)
	aMapped      = rules.Matching(dnsLabel, "a namespace", "use lower-case letters, digits and -"+ends)
	aLabelName   = rules.Checked(checkAdded, "the name of a label", "write one such as example.com/team")
	aLabelValue  = rules.Matching(`^([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?$`, "the value of a label",
		"use letters, digits, - _ and ."+ends)
	anAddedAnnotation = rules.Checked(func(s string) error { return checkAdded(strings.ToLower(s)) },
		"the name of an annotation", "write one such as example.com/team")

	aLabelSelector = rules.Checked(checkLabels, "a label selector", labelForm).OrEmpty()
	aFieldSelector = rules.Valid(func(s string) bool {
		_, err := fields.ParseSelector(s)
		return err == nil
	}, "a field selector", fieldForm).OrEmpty()
	anExpression = rules.Checked(func(s string) error {
		_, err := filter.ParseExpression(s)
		return err
	}, "a text", "").OrEmpty()
	aPath         = pathThat(func(jsonscan.Path) error { return nil })
	aRedactedPath = pathThat(redact.CheckPath)
	anIgnoredPath = pathThat(checkIgnored)
	anAnnotation  = rules.Checked(checkAnnotation, "the name of an annotation", "write one such as example.com/team")

	aFile = rules.Kind{What: "a text", Check: func(s string) error {
		if strings.HasPrefix(s, "~") {
			return fmt.Errorf("%q begins with ~, which is not replaced here; write the whole path, or a relative one", s)
		}
		return nil
	}, Empty: true, File: true}
	aVariable = rules.Matching(`^[A-Za-z_][A-Za-z0-9_]*$`, "the name of an environment variable",
		"write a name such as BRIDGE_TOKEN, not the value").OrEmpty().Hidden()

	aListener       = rules.Valid(value.Listenable, listener, "write host:port, such as 127.0.0.1:8080 or :8080")
	aBrokerListener = rules.Valid(value.Listenable, listener, "write host:port, such as 127.0.0.1:4222 or :4222")

	aServer = rules.Valid(value.IsServer, "the URL of a NATS server",
		"write nats://host:4222, or tls, ws or wss for nats; secrets are in files, as tokenFile or credsFile").Hidden()
	aStream = rules.Matching(`^[^\s.*>/\\\x00-\x1f\x7f]{1,255}$`, "the name of a stream",
		`use a word without spaces and . * > / \`)
	aSubject = rules.Checked(checkSubject, "a subject", "begin as in "+encode.DefaultSubject)
	// The name of a bucket's stream is longer, and a directory is named after that.
	aBucket = rules.Matching(`^[A-Za-z0-9_-]{1,200}$`, "the name of a bucket", "use letters, digits, - and _ (at most 200)")

	aBroker = rules.Valid(value.IsBroker, "the address of a broker",
		"write host:port, such as localhost:9092, and secrets in sasl").
		Hidden().SameIn(strings.ToLower)
	aTopicTemplate = rules.Checked(checkTopics, "the name of a topic",
		"use letters, digits, . _ - and placeholders, as in "+encode.DefaultTopic)
	aTopic = rules.Valid(func(s string) bool { return topicPattern.MatchString(s) && strings.Trim(s, ".") != "" },
		"the name of a topic", "use letters, digits, . _ and - (at most 249, not dots alone)")
	aTokenURL = rules.Valid(value.IsTokenURL, "the URL of a server that gives tokens",
		"write one with https or http, such as "+tokenURL+", and secrets as clientSecretFile or clientSecretEnv").
		OrEmpty().Hidden()
	aScope = rules.Matching(`^[!#-\[\]-~]+$`, "a scope", "write one word of printable ASCII, without quotes and backslashes")
)

// pathThat is a path into an object, with a further check.
func pathThat(check func(jsonscan.Path) error) rules.Kind {
	return rules.Checked(func(s string) error {
		p, err := jsonscan.ParsePath(s)
		if err != nil {
			return err
		}
		return check(p)
	}, "a path", "").SameIn(func(s string) string {
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
		return rules.ErrNot
	}
	return redact.CheckAnnotation(s)
}

var uidPath = jsonscan.MustParsePath("metadata.uid")

// checkIgnored refuses what identifies an object.
func checkIgnored(p jsonscan.Path) error {
	if _, err := clean.New(clean.Config{Ignore: []jsonscan.Path{p}}); err != nil {
		return err
	}
	if uidPath.Within(p) {
		return fmt.Errorf("path %q: each cluster gives an object a uid of its own; name something else", p)
	}
	return nil
}

// checkAdded checks the name of a label or an annotation that is added to an object.
func checkAdded(s string) error {
	switch {
	case len(validation.IsQualifiedName(s)) > 0:
		return rules.ErrNot
	case strings.HasPrefix(s, clean.Domain):
		return fmt.Errorf("%q begins with %s, which is for what the program writes itself; use another prefix", s,
			clean.Domain)
	}
	return nil
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
		err = rules.ErrNot
	}
	return err
}
