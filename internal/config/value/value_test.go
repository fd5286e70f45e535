// SPDX-License-Identifier: Apache-2.0

package value

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestResourceName_is_read_as_kubectl_reads_it(t *testing.T) {
	for _, c := range []struct {
		text string
		want ResourceName
		arg  string
	}{
		{"pods", ResourceName{Plural: "pods"}, "pods"},
		{"pods.v1", ResourceName{Plural: "pods", Version: "v1"}, "pods.v1."},
		{"pods.v1.", ResourceName{Plural: "pods", Version: "v1"}, "pods.v1."},
		{"deployments.apps", ResourceName{Plural: "deployments", Group: "apps"}, "deployments.apps"},
		{"deployments.v1.apps", ResourceName{"deployments", "v1", "apps"}, "deployments.v1.apps"},
		{
			"widgets.v1beta2.shop.example.com",
			ResourceName{"widgets", "v1beta2", "shop.example.com"},
			"widgets.v1beta2.shop.example.com",
		},
		{"widgets.shop.example.com", ResourceName{Plural: "widgets", Group: "shop.example.com"}, "widgets.shop.example.com"},
		{"widgets.v8s.io", ResourceName{Plural: "widgets", Group: "v8s.io"}, "widgets.v8s.io"},
	} {
		var got ResourceName
		if err := got.UnmarshalText([]byte(c.text)); err != nil || got != c.want || got.Arg() != c.arg {
			t.Errorf("%s: %+v, %s, %v", c.text, got, got.Arg(), err)
		}
		var again ResourceName
		err := again.UnmarshalText([]byte(got.String()))
		assert.True(t, err == nil && again == got, "%s: written as %s, read back as %+v, %v", c.text, got, again, err)
	}
}

func TestResourceName_overlaps_where_objects_may_be_the_same(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"pods", "pods", true},
		{"pods", "nodes", false},
		{"deployments.apps", "deployments.v1beta1.apps", true},
		{"events.v1", "events.events.k8s.io", false},
		{"events", "events.events.k8s.io", true},
		{"events", "events.v1", true},
		{"po", "pods", true},
		{"deploy", "deployment.v1.apps", true},
		{"deploy", "po", false},
		{"ev.v1", "events.events.k8s.io", false},
	} {
		var a, b ResourceName
		require.NoError(t, a.UnmarshalText([]byte(c.a)))
		require.NoError(t, b.UnmarshalText([]byte(c.b)))
		assert.Equal(t, c.want, a.Meaning().Overlaps(b.Meaning()), "%s, %s", c.a, c.b)
		assert.Equal(t, c.want, b.Meaning().Overlaps(a.Meaning()), "%s, %s", c.a, c.b)
	}
}

func TestSize_is_written_as_it_is_read(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "1": 1, "256Mi": 256 << 20, "1G": 1e9, "1.5Gi": 3 << 29, "1e3": 1000} {
		var got, again Size
		err := got.UnmarshalText([]byte(text))
		assert.True(t, err == nil && got == want, "%s: %d, %v, want %d", text, got, err, want)
		err = again.UnmarshalText([]byte(got.String()))
		assert.True(t, err == nil && again == got, "%s: written as %s, read back as %d, %v", text, got, again, err)
	}
	for _, text := range []string{"", "x", "-1", "0.5", "100m", "10MB", "1e30"} {
		var got Size
		assert.Error(t, got.UnmarshalText([]byte(text)), "%q was taken as %d", text, got)
	}
}

func TestLimit_is_a_number_or_a_percentage(t *testing.T) {
	for text, want := range map[string]Limit{
		"0": {}, "50": {Number: 50}, "0%": {Percent: true}, "20%": {20, true}, "100%": {100, true},
	} {
		var got Limit
		require.NoError(t, got.UnmarshalText([]byte(text)), text)
		assert.Equal(t, want, got, text)
		assert.Equal(t, text, got.String())
	}
	for _, text := range []string{"", "%", "101%", "-1", "-1%", "1.5%", "20 %", "99999999999"} {
		assert.Error(t, new(Limit).UnmarshalText([]byte(text)), text)
	}
}
