// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"errors"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
	"github.com/kube-eventbridge/kube-eventbridge/source/sharing"
)

// restartReason is the reason label of a watch's or list's restart: few values, each with a meaning of its own.
func restartReason(err error) string {
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return "ended"
	case kube.Expired(err):
		return "expired"
	case errors.As(err, &askedError{}):
		return "asked"
	case errors.Is(err, sharing.ErrMoved):
		return "moved"
	case errors.Is(err, sharing.ErrDetached):
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

// askedError is why a list was asked for.
type askedError struct{ source.Why }

func (e askedError) Error() string { return e.Message }
