import { useTexts } from '../../shared/i18n.js'
import { texts as en } from './en.js'
import { texts as es } from './es.js'

useTexts({ es, en })
