
Ö
jit_addmain.1é
main.1Dconvert*€:!jit(add)/convert_element_typex˜‚€€€¢€€€'
y.1	parameter*€H:y˜ƒ€€€;
add.1add*€:jit(add)/addx˜„€€€¢
‚€€€ƒ€€€"%
*€
*€*€x.1y.1(0„€€€Bmain"%
*€
*€*€x.1y.1(0Šª
<frozen runpy>
 site-packages/pytest/__main__.py
(site-packages/_pytest/config/__init__.py
site-packages/pluggy/_caller.py
 site-packages/pluggy/_manager.py
"site-packages/pluggy/_execution.py
site-packages/_pytest/main.py
site-packages/_pytest/runner.py
!site-packages/_pytest/unittest.py
+site-packages/absl/testing/parameterized.py
jax/tests/dtypes_test.py_run_module_as_main	_run_code<module>_console_main_mainHookCaller.__call__PluginManager._hookexec
_multicallpytest_cmdline_mainwrap_sessionpytest_runtestlooppytest_runtest_protocolruntestprotocolcall_and_reportCallInfo.from_call!call_and_report.<locals>.<lambda>pytest_runtest_callTestCaseFunction.runtestX_ParameterizedTestIter.__iter__.<locals>.make_bound_param_test.<locals>.bound_param_test4TestPromotionTables.testBinaryPromotionJitInvarianceFTestPromotionTables.testBinaryPromotionJitInvariance.<locals>.<lambda>Æ (Ç0*Æ (X0	 (	0$ (03† "(†0PÅ (Ç0	· (·0L“ (“03	ü (ü0&
Í !(Í06ƒ (ƒ03› (›0Nv (v0,‹ (‹0Aù (ı0é %(é0+ú (ú0/¸ (¸0	˜ (˜0%
Ç (Ç05‹	 (‹	0;‰	 (‰	0&"""""""""	"
	"
"""""""""""""""""""" (