// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
)

var createOptions = metav1.CreateOptions{FieldManager: "faults-driver"}

// errRefused says that the API server understood a request and what it is about is not as the driver thought.
var errRefused = errors.New("refused")

const (
	firstWait   = 50 * time.Millisecond
	longestWait = time.Second
)

// call makes a request until the API server has answered it. The error is errRefused, ctx's, or an answer that says
// that the request is wrong.
func (d *Driver) call(ctx context.Context, request func(context.Context) error) error {
	if err := d.limiter.Wait(ctx); err != nil {
		return fmt.Errorf("wait for a turn: %w", err)
	}
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		err := request(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case refused(err):
			d.count(func(c *Counts) { c.Refused++ })
			return fmt.Errorf("%w: %w", errRefused, err)
		case !passing(err):
			return err
		}
		d.count(func(c *Counts) { c.Retried++ })
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}

// refused: also 405, which a definition that is being deleted answers to a create, and 403, where a namespace ends.
func refused(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) ||
		apierrors.IsInvalid(err) ||
		apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}

// passing: no answer at all, or one of a server that starts, stops or has too much to do.
func passing(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests ||
		code == http.StatusUnauthorized || code == http.StatusRequestTimeout || code == 0
}
