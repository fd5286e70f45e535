// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
)

func TestCheckTopic_says_what_is_valid(t *testing.T) {
	for _, good := range []string{"kubernetes", "k8s.{cluster}.{resource}", "{pipeline}", "A_b-9", strings.Repeat("a", 249)} {
		assert.NoError(t, CheckTopic(good), good)
	}
	for _, bad := range []string{"", ".", "..", "a b", "a/b", "k8s.{cluster", "a}", "ä", strings.Repeat("a", 250)} {
		if err := CheckTopic(bad); err == nil || !strings.HasPrefix(err.Error(), `"`+bad+`" is not the name of a topic; use letters`) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestPattern_fits_what_its_placeholders_stand_for(t *testing.T) {
	for text, c := range map[string]struct{ fit, others string }{
		"kubernetes":         {"kubernetes", "kubernetes2 xkubernetes"},
		"k8s.{a}.{b}":        {"k8s.x.y k8s.x.y.z", "k8s.x k8s.. k8sxxxy"},
		"{pipeline}-{group}": {"a-b a-b-c", "- a- -b ab"},
	} {
		p := must.Get(parse(text))(t)
		for _, topic := range strings.Fields(c.fit) {
			assert.True(t, p.fits.MatchString(topic), "%s does not fit %s", topic, text)
		}
		for _, topic := range strings.Fields(c.others) {
			assert.False(t, p.fits.MatchString(topic), "%s fits %s", topic, text)
		}
		assert.Equal(t, (text == "kubernetes"), p.only, text)
	}
}

func TestCheckBroker_says_what_is_valid(t *testing.T) {
	for _, good := range []string{"localhost:9092", "10.0.0.1:1", "[::1]:9092", "kafka-0.kafka_x:65535"} {
		assert.NoError(t, CheckBroker(good), good)
	}
	for _, bad := range []string{"", "localhost", "localhost:", ":9092", "localhost:0", "localhost:x", "kafka://localhost:9092", "a b:1", "me:hidden@localhost:9092"} {
		if err := CheckBroker(bad); err == nil || !strings.Contains(err.Error(), "write host:port, such as localhost:9092") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestNew_says_what_is_wrong_and_speaks_to_nobody(t *testing.T) {
	for want, c := range map[string]Config{
		`"a b" is not the name of a topic`:        {Brokers: []string{"b:1"}, Topic: "a b"},
		"connect to b:1,c:2: tls: CA: open /none": {Brokers: []string{"b:1", "c:2"}, Topic: "t", TLS: kafka.TLS{CAFile: "/none"}},
	} {
		if _, err := New(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, topic := range []string{"t", "t.{resource}"} {
		l := must.Get(New(Config{Brokers: []string{"b:1"}, Topic: topic}))(t)
		l.Close()
	}
}
