// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

// Expired reports whether the history that was asked for is gone.
func Expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// Unanswerable reports whether it is of no use to ask the same again: the API server has no such version any more, or
// none yet, or does not know what it is asked for, or answers something else.
func Unanswerable(err error) bool {
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

// Patience decides when a request for an old version is given up: at once where it cannot be answered, and after some
// answers that say something else is wrong, or come too late. That no server is there says nothing of the request.
type Patience struct{ refusals int }

// maxRefusals takes about half a minute.
const maxRefusals = 8

// Spent reports whether a request that has failed is to be given up.
func (p *Patience) Spent(err error) bool {
	if Answered(err) {
		p.refusals++
	}
	return p.refusals >= maxRefusals || Unanswerable(err)
}

// Answered reports whether there was an API server, be it one that took too long.
func Answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) || errors.As(err, &rawjson.UnreadableError{}) ||
		errors.Is(err, context.DeadlineExceeded)
}

// OldestWatchable returns the version that a refusal names as the oldest that can be watched, if it comes after shown.
// API servers name it in the message only: "too old resource version: 72 (90)".
func OldestWatchable(refusal error, shown string) string {
	message, ok := strings.CutPrefix(StatusMessage(refusal), "too old resource version: ")
	if !ok {
		return ""
	}
	_, message, _ = strings.Cut(message, "(")
	oldest, found := strings.CutSuffix(message, ")")
	o, ok := source.Number(oldest)
	s, known := source.Number(shown)
	if !found || !ok || !known || o <= s {
		return ""
	}
	return oldest
}

// StatusMessage returns what the API server said, without what was added on the way.
func StatusMessage(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Message != "" {
		return status.Status().Message
	}
	return err.Error()
}
