import { closeDialogs } from './dialog.js'
import { setLanguage, t } from './i18n.js'
import { languageButton } from './language-button.js'
import { content, render } from './lit.js'
import { toast } from './notices.js'
import { focusSignIn } from './sign-in.js'

/**
 * Chooses between asking for a token and working with one. `createSignIn(form)` makes the form, `startWorkspace(session, page)`
 * the page of a session. Answers what the page itself needs to begin.
 */
export function startPage({ createSignIn, startWorkspace }) {
  const root = document.getElementById('app')
  let workspace
  let view = () => null

  // What the page's file shows until its script runs.
  root.replaceChildren()
  const redraw = () => render(content(view()), root)
  const show = (next) => {
    view = next
    redraw()
  }
  const onLanguage = async (language) => {
    try {
      await setLanguage(language)
    } catch {
      toast(t('error.CONNECTION'))
      return
    }
    redraw()
    workspace?.reload()
  }
  /** `more` are further options of the form. */
  const askForToken = (reason, more) => {
    workspace?.stop()
    workspace = undefined
    closeDialogs()
    document.title = 'tillbridge'
    show(
      createSignIn({
        redraw,
        reason,
        languageButton: () => languageButton(onLanguage),
        onSession: work,
        ...more,
      }),
    )
    focusSignIn()
  }
  const work = (session) => {
    workspace = startWorkspace(session, { redraw, onLanguage, askForToken })
    show(() => workspace.view())
  }
  return { show, onLanguage, askForToken, work, isWorking: () => workspace !== undefined }
}
