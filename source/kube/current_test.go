// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

// current returns what [Current] tells; at each object it calls before, if that is not nil.
func current(t *testing.T, server *kubetest.Cluster, before func(told int) error) (told []string, err error) {
	t.Helper()
	version, at := "", ""
	defer func() {
		assert.True(t, err != nil || version != "" && (at == "" || version == at), "the list is of %q, its end of %q",
			version, at)
	}()
	version, err = Current(t.Context(), dial(t, server.Script), kubetest.ConfigMaps, func(item *Item) error {
		if before != nil {
			if err := before(len(told)); err != nil {
				return err
			}
		}
		body := item.Body()
		defer body.Release()
		if size := item.Size(); size < len(body.Bytes()) || !strings.Contains(string(body.Bytes()), item.UID) {
			t.Errorf("%d bytes of %s, whose size is said to be %d", len(body.Bytes()), item.Key(), size)
		}
		at = item.At
		assert.Equal(t, at, source.Later(at, item.ResourceVersion), "%s is newer than its list", item.Key())
		told = append(told, item.Key()+" "+item.UID+" "+item.ResourceVersion)
		return nil
	})
	return told, err
}

func TestCurrent_tells_what_exists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes, want := kubetest.ManyObjects(2*PageSize + 10)
		server := kubetest.NewCluster(t, 5000, writes...)
		got, err := current(t, server, nil)
		assert.True(t, err == nil && slices.Equal(got, want),
			"error %v, %d objects, want %d", err, len(got), len(want))
		for i, q := range server.Asked {
			if server.Accepted[i] != acceptObjects || q.Get("resourceVersion") != "" ||
				q.Get("limit") != map[bool]string{true: "1", false: strconv.Itoa(PageSize)}[i == 0] {
				t.Errorf("asked for %v, accepting %s", q, server.Accepted[i])
			}
		}
	})
}

func TestCurrent_asks_again_and_tells_nothing_twice(t *testing.T) {
	writes, want := kubetest.ManyObjects(PageSize + 10)
	items := kubetest.NewCluster(t, 5000, writes...).Items(5000, "", "")
	for name, fault := range map[string]*kubetest.Step{
		"no answer":   {Cut: true},
		"half a page": {Body: kubetest.ListOf("5000", "5000-501", items[1:PageSize+1]...)[:20000], Cut: true},
		"too many requests": {
			Status: http.StatusTooManyRequests, After: "1",
			Body: kubetest.StatusOf(http.StatusTooManyRequests, "TooManyRequests", "slow down"),
		},
		"an error for a while": {
			Status: http.StatusInternalServerError,
			Body:   kubetest.StatusOf(http.StatusInternalServerError, "InternalError", "etcd"),
		},
	} {
		for _, first := range []int{0, 1} {
			if first == 0 && name == "half a page" {
				continue // it has one object
			}
			must.RunInBubble(t, fmt.Sprintf("%s of page %d", name, first+1), func(t *testing.T) {
				server := kubetest.NewCluster(t, 5000, writes...)
				server.Fault = func(n int, _ url.Values) *kubetest.Step {
					if n >= first && n < first+3 {
						return fault
					}
					return nil
				}
				got, err := current(t, server, nil)
				assert.True(t, err == nil && slices.Equal(got, want),
					"error %v, %d objects, want %d", err, len(got), len(want))
			})
		}
	}
}

// Before its first page has been read, a list is of no version, and so it is where the API server has forgotten the one
// that it was of: what is read again then is another list.
func TestCurrent_misses_nothing_where_an_object_goes_while_a_page_of_no_version_breaks_off(t *testing.T) {
	for name, forgets := range map[string]bool{"the first page": false, "one read on as of later": true} {
		must.RunInBubble(t, name, func(t *testing.T) {
			writes, want := kubetest.ManyObjects(10)
			server := kubetest.NewCluster(t, 20, append(writes,
				kubetest.Write{Rev: 11, Name: "o00001", UID: "u-o00001", Gone: true},
				kubetest.Write{Rev: 12, Name: "o00002", UID: "u-o00002", Gone: true})...)
			server.Now = 10
			goes := func() { // two that a broken page has told
				server.Mu.Lock()
				defer server.Mu.Unlock()
				server.Now = 12
			}
			broke := false
			server.Fault = func(_ int, q url.Values) *kubetest.Step {
				token := q.Get("continue")
				if forgets && strings.HasPrefix(token, "10-") {
					body := kubetest.StatusOf(http.StatusGone, "Expired", "the provided continue parameter is too old")
					return &kubetest.Step{Status: http.StatusGone, Body: strings.Replace(body, `"kind"`,
						`"metadata":{"continue":"latest-1"},"kind"`, 1)}
				}
				if broke || token != map[bool]string{true: "latest-1"}[forgets] {
					return nil
				}
				broke = true
				items := server.Items(10, "", "")[len(token)/len("latest-1"):]
				page := kubetest.ListOf("10", "", items...)
				return &kubetest.Step{Body: page[:len(page)-len(items[len(items)-1])], Cut: true}
			}
			got, err := current(t, server, func(int) error { goes(); return nil })
			require.True(t, broke, "broken off: error")
			require.NoError(t, err, "broken off: error")
			for _, o := range want[3:] {
				assert.Contains(t, got, o, "exists from the call to the return and is not told")
			}
		})
	}
}

// forgetting answers the request for a second page at a version that is gone with the token for one at what is the
// present, as API servers do.
func forgetting(token string) func(int, url.Values) *kubetest.Step {
	return func(_ int, q url.Values) *kubetest.Step {
		if !strings.HasPrefix(q.Get("continue"), "5000-") {
			return nil
		}
		body := kubetest.StatusOf(http.StatusGone, "Expired", "the provided continue parameter is too old")
		return &kubetest.Step{Status: http.StatusGone, Body: strings.Replace(body, `"kind"`,
			fmt.Sprintf(`"metadata":{"continue":%q},"kind"`, token), 1)}
	}
}

func TestCurrent_goes_on_when_the_version_of_its_list_is_gone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes, want := kubetest.ManyObjects(PageSize + 10)
		server := kubetest.NewCluster(t, 5001, append(writes, kubetest.Write{Rev: 5001, Name: "z", UID: "u-z"})...)
		server.Now = 5000
		server.Fault = forgetting("5001-1")
		got, err := current(t, server, func(int) error {
			server.Mu.Lock()
			defer server.Mu.Unlock()
			server.Now = 5001
			return nil
		})
		if want = append(want, "default/z u-z 5001"); err != nil || !slices.Equal(got, want) {
			t.Errorf("error %v, %d objects, want %d", err, len(got), len(want))
		}
	})
}

func TestCurrent_ends_with_what_is_wrong(t *testing.T) {
	enough := errors.New("enough seen")
	writes, _ := kubetest.ManyObjects(PageSize + 10)
	for name, c := range map[string]struct {
		fault func(int, url.Values) *kubetest.Step
		f     error
		wrong func(error) bool
	}{
		"f's own error":    {nil, enough, func(err error) bool { return errors.Is(err, enough) }},
		"no such resource": {kubetest.Always(kubetest.Step{Status: http.StatusNotFound}), nil, Unanswerable},
		"no permission, however often": {kubetest.Always(kubetest.Step{
			Status: http.StatusForbidden,
			Body:   kubetest.StatusOf(403, "Forbidden", "no"),
		}), nil, func(err error) bool { return err != nil }},
		"no identity": {
			kubetest.Always(kubetest.Step{Body: kubetest.ListOf("20", "", kubetest.Nameless["uid"])}), nil,
			func(err error) bool { return errors.As(err, &rawjson.UnreadableError{}) },
		},
		"gone, and no way to go on":      {forgetting(""), nil, Expired},
		"gone, and told to ask the same": {forgetting(fmt.Sprintf("5000-%d", PageSize)), nil, Expired},
		"no more than one answer is wanted": {
			nil, context.Canceled,
			func(err error) bool { return errors.Is(err, context.Canceled) },
		},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := kubetest.NewCluster(t, 5000, writes...)
			server.Fault = c.fault
			_, err := current(t, server, func(int) error { return c.f })
			assert.True(t, err != nil && c.wrong(err), "error is %v", err)
		})
	}
}

// Who takes an hour for each object still gets them all.
func TestCurrent_waits_for_who_is_told(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes, want := kubetest.ManyObjects(50)
		for i := range writes {
			writes[i].Size = 64 << 10
		}
		server := kubetest.NewCluster(t, 5000, writes...)
		got, err := current(t, server, func(int) error {
			<-time.After(time.Hour)
			return nil
		})
		assert.True(t, err == nil && slices.Equal(got, want),
			"error %v, %d objects, want %d", err, len(got), len(want))
	})
}
