import type { FastifyInstance } from 'fastify'
import { AppError } from '../errors/app-error.ts'
import { refuseDepth, refuseHostileText } from './hostile-text.ts'

/**
 * JSON is the only body that is read. An empty one counts as none, since many clients send the content type always;
 * `__proto__` and `constructor.prototype` keys, bytes that are not UTF-8, and hostile text are refused. With `read` the values
 * are what it makes of the text, once that was found to be harmless. With `judgesText` the route itself refuses hostile text,
 * so that one bad value does not refuse all that came with it.
 */
export function installJsonBody(
  app: FastifyInstance,
  options: { read?: (text: string) => unknown; judgesText?: true } = {},
): void {
  app.removeAllContentTypeParsers()
  const parse = app.getDefaultJsonParser('error', 'error')
  const utf8 = new TextDecoder('utf-8', { fatal: true })

  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, bytes, done) => {
    if (bytes.length === 0) return done(null, undefined)
    let text: string
    try {
      text = utf8.decode(bytes as Buffer)
    } catch (cause) {
      return done(
        new AppError('BAD_REQUEST', {
          message:
            'The body is not valid UTF-8; send it with content-type application/json; charset=utf-8',
          cause,
        }),
      )
    }
    // It answers through the callback; the promise in its type is for other parsers.
    void parse(request, text, (error, value) => {
      if (error) return done(error, undefined)
      try {
        if (options.judgesText) refuseDepth(value)
        else refuseHostileText(value, 'body')
        done(null, options.read ? options.read(text) : value)
      } catch (refusal) {
        return done(refusal as Error, undefined)
      }
    })
  })

  app.addHook('preValidation', async (request) => {
    refuseHostileText(request.params, 'params')
    refuseHostileText(request.query, 'query')
  })
}
