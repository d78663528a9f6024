import { errorLines } from '../../shared/errors.js'
import { t } from '../../shared/i18n.js'
import { brandMark, icon } from '../../shared/icons.js'
import { html, nothing } from '../../shared/lit.js'
import { field } from '../../shared/parts.js'
import { acceptInvitation } from '../session.js'

/** Sets the first password with the code of an invitation. The address has it behind its hash, with the name to sign in with. */
export function createInvitation({ code, signInName, redraw, languageButton, onSession }) {
  let password = ''
  let busy = false
  let complaint
  const submit = async (event) => {
    event.preventDefault()
    if (busy) return
    busy = true
    complaint = undefined
    redraw()
    try {
      onSession(await acceptInvitation(code, password))
      return
    } catch (error) {
      complaint = error.code === 'INVITATION_INVALID' ? t('invitation.invalid') : errorLines(error)
    } finally {
      busy = false
    }
    redraw()
  }
  const onPassword = (event) => {
    password = event.target.value
  }
  return () => html`<main class="sign-in"><form class="panel" @submit=${submit}>
    <p class="brand">${brandMark()}tillbridge</p>
    <h1>${t('invitation.title')}</h1>
    ${
      signInName
        ? field(
            t('invitation.name'),
            html`<input name="username" readonly autocomplete="username" .value=${signInName}>`,
            t('invitation.nameHint'),
          )
        : nothing
    }
    ${field(
      t('account.newPassword'),
      html`<input name="password" type="password" required minlength="12" maxlength="200" autocomplete="new-password" @input=${onPassword}>`,
      t('account.passwordHint'),
    )}
    <div role="alert">${complaint ? html`<div class="note bad"><div>${complaint}</div></div>` : nothing}</div>
    <button type="submit" class="button main wide" ?disabled=${busy}>
      ${busy ? t('signIn.busy') : html`${icon('check')}${t('invitation.submit')}`}
    </button>
    ${languageButton()}
  </form></main>`
}
