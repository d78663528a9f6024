import { addTexts } from '../shared/i18n.js'
import { closingsPageTexts as en } from './texts/closings-page-en.js'
import { closingsPageTexts as es } from './texts/closings-page-es.js'

// They come with the views that show them: the first view has no use for them.
addTexts({ en, es })
