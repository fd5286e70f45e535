// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

// backoff waits longer after every failure in a row: 100 ms, doubled up to 30 s, give or take a quarter. It never waits
// shorter than the API server asks for, which may ask for up to five minutes.
type backoff struct{ failures int }

const (
	firstDelay   = 100 * time.Millisecond
	lastDelay    = 30 * time.Second
	longestAsked = 5 * time.Minute
)

func (b *backoff) reset() { b.failures = 0 }

// wait returns ctx's error if it ended first.
func (b *backoff) wait(ctx context.Context, cause error) error {
	d := min(firstDelay<<min(b.failures, 9), lastDelay)
	d += time.Duration((rand.Float64() - 0.5) * 0.5 * float64(d))
	b.failures++
	if seconds, ok := apierrors.SuggestsClientDelay(cause); ok {
		d = max(d, min(time.Duration(seconds)*time.Second, longestAsked))
	}
	return pause.For(ctx, d)
}

// restartReason is the reason label of a watch's or list's restart: few values, each with a meaning of its own.
func restartReason(err error) string {
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return "ended"
	case expired(err):
		return "expired"
	case errors.As(err, &askedError{}):
		return "asked"
	case errors.Is(err, errMoved):
		return "moved"
	case errors.Is(err, errDetached):
		return "detached"
	case apierrors.IsTooManyRequests(err):
		return "throttled"
	case apierrors.IsNotFound(err):
		return "not-found"
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return "forbidden"
	case errors.Is(err, context.DeadlineExceeded):
		return "silent"
	case errors.As(err, &rawjson.UnreadableError{}):
		return "unreadable"
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return "server-error"
	}
	return "connection"
}

// expired reports whether the history that was asked for is gone.
func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// unanswerable reports whether it is of no use to ask the same again: the API server has no such version any more, or
// none yet, or does not know what it is asked for, or answers something else.
func unanswerable(err error) bool {
	if errors.As(err, &rawjson.UnreadableError{}) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	case http.StatusNotImplemented:
		return true
	default:
		return code >= 400 && code < 500 || tooLarge(err)
	}
}

// tooLarge reports whether the API server is not at the version that it was asked for.
func tooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		apierrors.IsTimeout(err) && strings.Contains(err.Error(), "Too large resource version")
}

// patience decides when a request for an old version is given up: at once where it cannot be answered, and after some
// answers that say something else is wrong, or come too late. That nobody is there says nothing of the request.
type patience struct{ refusals int }

// maxRefusals takes about half a minute.
const maxRefusals = 8

func (p *patience) spent(err error) bool {
	if answered(err) {
		p.refusals++
	}
	return p.refusals >= maxRefusals || unanswerable(err)
}

// answered reports whether there was an API server, be it one that took too long.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) || errors.As(err, &rawjson.UnreadableError{}) ||
		errors.Is(err, context.DeadlineExceeded)
}
