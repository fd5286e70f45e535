// SPDX-License-Identifier: Apache-2.0

package write

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Answer is what became of a request.
type Answer struct {
	Outcome Outcome
	// Object is with [Done] the object as the API server has it now, and UID and ResourceVersion are its own. After a
	// Delete that left nothing they are empty.
	Object          []byte
	UID             types.UID
	ResourceVersion string
	// Code is that of HTTP; 0 if no answer came.
	Code int
	// Message says for people why the outcome is not Done, in the API server's words if it had any.
	Message string
	// Causes are what the API server names: with [Conflict] and [Invalid] the fields.
	Causes []metav1.StatusCause
	// RetryAfter is how long the API server asks to wait; mostly 0.
	RetryAfter time.Duration
}

// method is what a request does.
type method int

const (
	creating method = iota
	applying
	applyingStatus
	putting
	deleting
	reading
)

// response is an answer as it came.
type response struct {
	code int // 0 if none came
	body []byte
	err  error // client-go's, if code is no success
}

// newResponse returns the response of a request. If client-go knows no decoder for the answer's media type it gives the
// code in the error only, and no body.
func newResponse(code int, body []byte, err error) response {
	var status apierrors.APIStatus
	if code == 0 && errors.As(err, &status) {
		code = int(status.Status().Code)
	}
	return response{code: code, body: body, err: err}
}

// status returns the body, if it is a Status.
func (r response) status() *metav1.Status {
	var s metav1.Status
	if json.Unmarshal(r.body, &s) != nil || s.Kind != "Status" || s.APIVersion != "v1" {
		return nil
	}
	return &s
}

// unappliable reports whether the response to an apply may mean that it cannot carry the object. An API server that
// cannot apply at all does not take the media type. One that can meets an error that it has no Status for; errors of
// etcd are the same, and those of webhooks can be.
func (r response) unappliable() bool {
	if r.code != http.StatusInternalServerError {
		return r.code == http.StatusUnsupportedMediaType
	}
	s := r.status()
	return s != nil && s.Reason == metav1.StatusReasonUnknown && s.Details == nil
}

// answer says what the response to a request means.
func (r response) answer(m method, o Object) Answer {
	if r.err == nil {
		return r.success(m)
	}
	s := r.status()
	a := Answer{Code: r.code, Message: r.err.Error(), RetryAfter: retryAfter(r.err)}
	if s == nil {
		a.Outcome = unexplained(r.code)
		return a
	}
	a.Outcome = explained(m, o, r.code, s)
	if s.Message != "" {
		a.Message = s.Message
	}
	if s.Details != nil {
		a.RetryAfter = max(a.RetryAfter, time.Duration(s.Details.RetryAfterSeconds)*time.Second)
		a.Causes = s.Details.Causes
	}
	return a
}

// success is the answer of a response that is no error.
func (r response) success(m method) Answer {
	if m == deleting && r.status() != nil {
		return Answer{Outcome: Done, Code: r.code}
	}
	var decoded struct { // to decode all of the metadata takes long
		Metadata struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
	}
	err := json.Unmarshal(r.body, &decoded)
	object := decoded.Metadata
	if err != nil || object.UID == "" {
		return Answer{Outcome: Unavailable, Code: r.code, Message: "the answer is no object: no API server has sent it"}
	}
	return Answer{
		Outcome: Done, Code: r.code, Object: r.body, UID: object.UID, ResourceVersion: object.ResourceVersion,
	}
}

// unexplained is the outcome of an error without a Status.
func unexplained(code int) Outcome {
	switch code {
	case http.StatusNotFound: // the API server has no such path, and says so in plain text
		return NoResource
	case http.StatusRequestEntityTooLarge:
		return TooLarge
	case http.StatusTooManyRequests:
		return Throttled
	default:
		return Unavailable
	}
}

// explained is the outcome of an error with a Status.
//
// The API server names the object in the details of what it refuses. A webhook's refusal has none, unless the webhook
// writes them.
func explained(m method, o Object, code int, s *metav1.Status) Outcome {
	if policy(s) {
		return Denied
	}
	switch code {
	case http.StatusConflict:
		return conflict(m, o, s)
	case http.StatusNotFound:
		return notFound(o, s)
	case http.StatusForbidden:
		switch {
		case s.Details == nil:
			return Denied
		case has(s, metav1.StatusCause{Type: "NamespaceTerminating"}):
			return Terminating
		}
		return Forbidden
	case http.StatusUnprocessableEntity:
		switch {
		case s.Details == nil:
			return Denied
		case has(s, metav1.StatusCause{Field: "metadata.uid"}): // an apply compares it only as a field
			return Stale
		}
		return Invalid
	case http.StatusBadRequest:
		if s.Reason == metav1.StatusReasonUnknown { // a webhook's, if it says no code
			return Denied
		}
		return Invalid
	case http.StatusUnsupportedMediaType:
		return Failed
	case http.StatusMethodNotAllowed: // a POST, while the resource's definition is being deleted
		return NoResource
	case http.StatusInternalServerError:
		return Failed
	case http.StatusUnauthorized:
		return Unavailable
	}
	if outcome := unexplained(code); outcome != Unavailable || code >= http.StatusInternalServerError {
		return outcome
	}
	return Invalid
}

func conflict(m method, o Object, s *metav1.Status) Outcome {
	switch {
	case s.Details == nil:
		return Denied
	case has(s, metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict}):
		if m == creating { // it is looked for before the versions are compared
			return Exists
		}
		return Conflict
	case !about(o, s): // the status of a quota, for example, that too many requests change at a time
		return Failed
	case m == creating: // by apply or by POST, which have different reasons
		return Exists
	default:
		return Stale
	}
}

func notFound(o Object, s *metav1.Status) Outcome {
	switch {
	case s.Details == nil:
		return Denied
	case s.Details.Name == "" && s.Details.Kind == "":
		return NoResource
	case o.Namespace != "" && s.Details.Kind == "namespaces" && s.Details.Name == o.Namespace:
		return NoNamespace
	case about(o, s):
		return Gone
	default:
		return Failed
	}
}

// policy reports whether a ValidatingAdmissionPolicy refuses: it can choose one of three codes, and gives causes that
// are messages only.
func policy(s *metav1.Status) bool {
	switch s.Reason {
	case metav1.StatusReasonInvalid, metav1.StatusReasonForbidden, metav1.StatusReasonRequestEntityTooLarge:
		return s.Details != nil && slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool {
			return c.Type == "" && c.Field == "" && c.Message != ""
		})
	default:
		return false
	}
}

// has reports whether a Status has a cause of this type, or at this field.
func has(s *metav1.Status, want metav1.StatusCause) bool {
	return s.Details != nil && slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool {
		return (want.Type == "" || c.Type == want.Type) && (want.Field == "" || c.Field == want.Field)
	})
}

// about reports whether a Status is about the object and not about another one that the API server had to change. The
// details have the resource or the kind, depending on who refuses. So only the other object that is known is excluded.
func about(o Object, s *metav1.Status) bool {
	const quotas = "resourcequotas"
	return s.Details.Name == o.Name && (s.Details.Kind != quotas || o.Resource.Resource == quotas)
}

// retryAfter is what the header of an answer asks for.
func retryAfter(err error) time.Duration {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return 0
	}
	return time.Duration(status.Status().Details.RetryAfterSeconds) * time.Second
}
