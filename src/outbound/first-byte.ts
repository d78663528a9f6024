import type { Dispatcher } from 'undici'

/**
 * Asks `mayStart` for each request at the moment of its first byte: false keeps it from being sent.
 *
 * undici tells a handler that its request starts after the connection stands and before the first byte is written. Seeing
 * that moment is the only exact way to know that nothing can have arrived; error codes alone cannot tell.
 */
export function atFirstByte(dispatcher: Dispatcher, mayStart: () => boolean): Dispatcher {
  return dispatcher.compose((dispatch) => (options, handler) => {
    const seen: Dispatcher.DispatchHandler = {
      onRequestStart(controller, context) {
        if (mayStart()) handler.onRequestStart?.(controller, context)
        else controller.abort(new Error('the right to send was lost'))
      },
      onRequestUpgrade: (...args) => handler.onRequestUpgrade?.(...args),
      onResponseStart: (...args) => handler.onResponseStart?.(...args),
      onResponseData: (...args) => handler.onResponseData?.(...args),
      onResponseEnd: (...args) => handler.onResponseEnd?.(...args),
      onResponseError: (...args) => handler.onResponseError?.(...args),
    }
    return dispatch(options, seen)
  })
}
