import { errorBox } from './errors.js'
import { t } from './i18n.js'
import { brandMark, icon } from './icons.js'
import { html, nothing } from './lit.js'
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

  const onToken = (event) => {
    token = event.target.value
  }
  const bad = (text) => html`<div class="note bad">${text}</div>`

  return () => html`<main class="sign-in"><form class="panel" @submit=${submit}>
    <p class="brand">${brandMark()}tillbridge</p>
    <h1>${t('signIn.title')}</h1>
    ${reason ? note('warn', html`<p>${reason}</p>`) : nothing}
    <label class="field">
      <span class="label">${t('signIn.token')}</span>
      <input id="token" type="password" name="token" required autocomplete="current-password" spellcheck="false"
        autocapitalize="off" aria-describedby="token-hint" aria-invalid=${isWrong ? 'true' : nothing} @input=${onToken}>
      <span id="token-hint" class="soft small">${t('signIn.hint')}</span>
    </label>
    <div role="alert">${isWrong ? bad(t('signIn.wrong')) : nothing}${refusal ? bad(refusal) : nothing}${failure ? errorBox(failure) : nothing}</div>
    <button type="submit" class="button main wide" ?disabled=${busy}>
      ${busy ? t('signIn.busy') : html`${icon('check')}${t('signIn.submit')}`}
    </button>
    ${languageButton()}
  </form></main>`
}
