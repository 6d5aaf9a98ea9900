"""Results on disk: written whole or not at all, never unpickled."""

from saddlewalk.store.disk import FOLDER as FOLDER
from saddlewalk.store.disk import check_file_free as check_file_free
from saddlewalk.store.disk import check_folder_free as check_folder_free
from saddlewalk.store.disk import clear_drafts as clear_drafts
from saddlewalk.store.disk import kind_of as kind_of
from saddlewalk.store.disk import load_dataset as load_dataset
from saddlewalk.store.disk import lock_folder as lock_folder
from saddlewalk.store.disk import new_folder as new_folder
from saddlewalk.store.disk import replacing as replacing
from saddlewalk.store.disk import reserve_folder as reserve_folder
from saddlewalk.store.disk import save_dataset as save_dataset
from saddlewalk.store.disk import versions as versions
from saddlewalk.store.disk import write_json as write_json
from saddlewalk.store.result import AbstractResult as AbstractResult
