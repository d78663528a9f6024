import { request } from '../shared/api.js'
import { createTokenForm } from '../shared/sign-in.js'

/** Asks for the control API's token until one is accepted, and hands it to `onToken`. */
export function createSignIn({ onToken, ...form }) {
  return createTokenForm({
    ...form,
    async enter(token) {
      await request('GET', '/stats', { token })
      onToken(token)
    },
  })
}
