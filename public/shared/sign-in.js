import { errorBox, errorLines } from './errors.js'
import { t } from './i18n.js'
import { brandMark, icon } from './icons.js'
import { html, nothing } from './lit.js'
import { field, note } from './parts.js'
import { signInPerson } from './person-session.js'

/**
 * Two ways to sign in, one of which is shown: with a token, which `enter(token)` takes, or as a person, after which `goOn()` is called.
 * Both answer a sentence that tells why it cannot go on. `isPerson`: which one is shown first. `onBack` leaves the form, where that is
 * possible.
 */
export function createSignInForms({ enter, goOn, isPerson = false, onBack, ...form }) {
  const choose = (person) => () => {
    isPerson = person
    form.redraw()
    focusSignIn()
  }
  const quiet = (text, onClick) =>
    html`<button type="button" class="button quiet wide" @click=${onClick}>${text}</button>`
  const others = (person) =>
    html`${quiet(t(person ? 'signIn.byName' : 'signIn.byToken'), choose(person))}
    ${onBack ? quiet(t('dialog.back'), onBack) : nothing}`
  const byToken = createTokenForm({ ...form, enter, other: () => others(true) })
  const byName = createPersonForm({ ...form, goOn, other: () => others(false) })
  return () => (isPerson ? byName() : byToken())
}

/** Puts the cursor where somebody types first. */
export function focusSignIn() {
  document.querySelector('#token, #person')?.focus()
}

/**
 * The form that asks for a token until one is taken. `enter(token)` goes on with it, or answers a sentence that tells why
 * it cannot; rejecting with status 401 means that the token is wrong. `reason` tells why one is asked again, `other` draws another
 * way to sign in.
 */
function createTokenForm({ redraw, enter, languageButton, reason, other }) {
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
    ${other?.() ?? nothing}
    ${languageButton()}
  </form></main>`
}

function createPersonForm({ redraw, reason, languageButton, other, goOn }) {
  let typed = { name: '', password: '', code: '' }
  let busy = false
  let complaint
  const type = (key) => (event) => {
    typed = { ...typed, [key]: event.target.value }
  }
  const submit = async (event) => {
    event.preventDefault()
    if (busy) return
    busy = true
    complaint = undefined
    redraw()
    try {
      complaint = await signInPerson(typed).then(goOn)
      if (complaint === undefined) return
    } catch (error) {
      complaint =
        error.status === 401
          ? t('signIn.wrongPerson')
          : error.status === 429
            ? t('signIn.locked')
            : errorLines(error)
    } finally {
      busy = false
    }
    redraw()
  }
  const input = (key, more) =>
    html`<input name=${key} id=${more.id ?? nothing} type=${more.type ?? 'text'} autocomplete=${more.complete} ?required=${more.required}
      inputmode=${more.mode ?? nothing} maxlength=${more.most} autocapitalize="off" spellcheck="false" @input=${type(key)}>`
  return () => html`<main class="sign-in"><form class="panel" @submit=${submit}>
    <p class="brand">${brandMark()}tillbridge</p>
    <h1>${t('signIn.title')}</h1>
    ${reason ? note('warn', html`<p>${reason}</p>`) : nothing}
    ${field(t('signIn.name'), input('name', { id: 'person', complete: 'username', required: true, most: 100 }))}
    ${field(t('signIn.password'), input('password', { type: 'password', complete: 'current-password', required: true, most: 200 }))}
    ${field(t('signIn.code'), input('code', { complete: 'one-time-code', mode: 'numeric', required: false, most: 8 }), t('signIn.codeHint'))}
    <div role="alert">${complaint ? html`<div class="note bad"><div>${complaint}</div></div>` : nothing}</div>
    <button type="submit" class="button main wide" ?disabled=${busy}>
      ${busy ? t('signIn.busy') : html`${icon('check')}${t('signIn.submit')}`}
    </button>
    ${other()}
    ${languageButton()}
  </form></main>`
}
