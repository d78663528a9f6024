import { h } from '../../shared/dom.js'
import { errorBox } from '../../shared/errors.js'
import { t } from '../../shared/i18n.js'
import { icon } from '../../shared/icons.js'
import { note } from '../../shared/parts.js'
import { readSession, signIn } from '../session.js'

/** Asks for a token until one is valid, and hands the session `{type, client}` to `onSession`. */
export function createSignIn({ redraw, onSession, languageButton, reason }) {
  let token = ''
  let busy = false
  let failure
  let isWrong = false
  let isRefused = false

  const submit = async (event) => {
    event.preventDefault()
    if (busy || token.trim() === '') return
    busy = true
    isWrong = false
    isRefused = false
    failure = undefined
    redraw()
    try {
      await signIn(token.trim())
      // A browser that refuses cookies, or gets one for https over http, would be back here after each look.
      const session = await readSession()
      if (session.valid) {
        token = ''
        return onSession(session)
      }
      isRefused = true
    } catch (error) {
      if (error.status === 401) isWrong = true
      else failure = error
    } finally {
      busy = false
    }
    redraw()
    document.getElementById('token')?.select()
  }

  return () =>
    h(
      'main',
      { key: 'sign-in', class: 'sign-in' },
      h(
        'form',
        { class: 'panel', onsubmit: (event) => void submit(event) },
        h(
          'p',
          { class: 'brand' },
          h('img', { src: '/shared/icon.svg', alt: '', width: 32, height: 32 }),
          'tillbridge',
        ),
        h('h1', null, t('signIn.title')),
        reason && note('warn', h('p', null, reason)),
        h(
          'label',
          { class: 'field' },
          h('span', { class: 'label' }, t('signIn.token')),
          h('input', {
            id: 'token',
            type: 'password',
            name: 'token',
            required: true,
            autocomplete: 'current-password',
            spellcheck: 'false',
            autocapitalize: 'off',
            'aria-describedby': 'token-hint',
            'aria-invalid': isWrong ? 'true' : null,
            oninput: (event) => {
              token = event.target.value
            },
          }),
          h('span', { id: 'token-hint', class: 'soft small' }, t('signIn.hint')),
        ),
        h(
          'div',
          { key: 'failure', role: 'alert' },
          isWrong && h('div', { class: 'note bad' }, t('signIn.wrong')),
          isRefused && h('div', { class: 'note bad' }, t('signIn.noCookie')),
          failure && errorBox(failure),
        ),
        h(
          'button',
          { type: 'submit', class: 'button main wide', disabled: busy },
          busy ? t('signIn.busy') : [icon('check'), t('signIn.submit')],
        ),
        languageButton(),
      ),
    )
}
