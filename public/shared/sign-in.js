import { h } from './dom.js'
import { errorBox } from './errors.js'
import { t } from './i18n.js'
import { icon } from './icons.js'
import { note } from './parts.js'

/**
 * The form that asks for a token until one is taken. `enter(token)` goes on with it, or answers a sentence that tells why
 * it cannot; rejecting with status 401 means that the token is wrong. `reason` tells why one is asked again.
 */
export function createTokenForm({ redraw, enter, languageButton, reason }) {
  let token = ''
  let busy = false
  let failure
  let refusal
  let isWrong = false

  const submit = async (event) => {
    event.preventDefault()
    const tried = token.trim()
    if (busy || tried === '') return
    busy = true
    isWrong = false
    refusal = undefined
    failure = undefined
    redraw()
    try {
      refusal = await enter(tried)
      if (refusal === undefined) {
        token = ''
        return
      }
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
          refusal && h('div', { class: 'note bad' }, refusal),
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
